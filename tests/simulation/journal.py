"""What the clients of one run saw, in the words of tests/history."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tests.history.journal import Entry
from tests.simulation.loop import Process
from tests.simulation.world import World


class Handed(NamedTuple):
    """One record that a call of an application returned, and the grant that it came by."""

    member: str
    partition: str
    epoch: int
    offset: int
    count: int  # type: ignore[assignment]  # in the place of tuple.count, which nobody calls


@dataclass(frozen=True, slots=True)
class Client:
    """Where a member lives, and whether it hands back what its application has not seen."""

    process: Process
    hands_back: bool


class SimJournal:
    """Entries in order of virtual time, and the bytes of every record."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.entries: list[Entry] = []
        self.produced_values: dict[tuple[str, int], bytes] = {}
        self.delivered_values: dict[tuple[str, int], set[bytes]] = defaultdict(set)
        self.sent_s: dict[bytes, float] = {}
        self.trimmed_to: dict[str, int] = {}
        self._trims: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self.members: dict[str, Client] = {}
        self.handed: set[Handed] = set()
        self.granted_s: dict[Handed, float] = {}
        """When leaders granted what may be handed out later."""
        self.seen: set[tuple[str, str, int]] = set()
        """Member, partition and offset of all that was ever handed out."""
        self.in_hand: set[tuple[str, str, int]] = set()
        """Member, partition and offset of what handlers are at work on."""
        self._came_again: set[Handed] = set()
        self.on_handed_out: Callable[[Handed], None] = lambda _: None

    def write(self, who: str, event: str, **fields: object) -> None:
        """Append an entry."""
        self.entries.append(Entry(self._world.now_s * 1_000, who, event, dict(fields)))
        self._world.event_log.event(self._world.now_s, event, who, repr(sorted(fields.items())))

    def sent(self, value: bytes) -> None:
        """Say that a record is given to a producer."""
        self.sent_s[value] = self._world.now_s

    def trims(self, partition: str, offset: int) -> None:
        """Say that all below an offset may be deleted, from now on."""
        self.trimmed_to[partition] = max(offset, self.trimmed_to.get(partition, 0))
        self._trims[partition].append((self._world.now_s * 1_000, offset))

    def log_begins(self, partition: str, log_start: int) -> None:
        """Say that a log was seen to begin there, whoever deleted what lay below."""
        self._trims[partition].append((self._world.now_s * 1_000, log_start))

    def was_trimmed(self, partition: str, offset: int, time_ms: float) -> bool:
        """Return whether an offset may have been below the log start at a time."""
        trims = self._trims.get(partition, ())
        return any(at_ms <= time_ms and offset < log_start for at_ms, log_start in trims)

    def produced(self, who: str, partition: str, offset: int, value: bytes) -> None:
        """Say that an offset was confirmed."""
        self._world.event_log.counters["produced"] += 1
        self.produced_values[partition, offset] = value
        self.write(who, "produced", p=partition, r=[[offset, offset]])

    def handed_out(self, handed: Handed) -> None:
        """Say that an application got a record; one that it renewed comes again."""
        if handed in self.handed:
            return
        self.handed.add(handed)
        self.seen.add((handed.member, handed.partition, handed.offset))
        self.on_handed_out(handed)

    def came_again(self, handed: Handed) -> None:
        """Say that a member got a record again, and has spoken for it by the one that it had."""
        self.handed.add(handed)
        self._came_again.add(handed)
        ranges = [[handed.offset, handed.offset, handed.count]]
        fields = {"p": handed.partition, "le": handed.epoch, "r": ranges}
        fields["granted_ms"] = self.granted_s[handed] * 1_000
        who = self.members[handed.member].process.name
        self.entries.append(Entry(self._world.now_s * 1_000, who, "delivered", fields))

    def delivered(self, who: str, handed: Handed) -> None:
        """Say that a record came, for the first time by its grant."""
        offset, count = handed.offset, handed.count
        self._world.event_log.counters["delivered"] += 1
        if count > 1:
            self._world.event_log.counters["redelivered"] += 1
        self.write(
            who, "delivered", p=handed.partition, le=handed.epoch, r=[[offset, offset, count]]
        )
        if handed in self._came_again:
            del self.entries[-1]  # known already
        elif (granted_s := self.granted_s.get(handed)) is not None:
            self.entries[-1].fields["granted_ms"] = granted_s * 1_000

    def handed_back(self, who: str, partition: str, epoch: int, offset: int, count: int) -> None:
        """Say that a member asks for a release that does not count."""
        self.write(who, "handed_back", p=partition, le=epoch, r=[[offset, offset, count]])

    def acknowledged(
        self, who: str, partition: str, kind: str, offsets: Iterable[int], error: str | None
    ) -> None:
        """Say how acknowledgements ended."""
        found = sorted(offsets)
        state = "refused" if error is not None else "confirmed"
        self._world.event_log.counters[f"{kind} {state}"] += len(found)
        self._world.event_log.counters["acknowledgements"] += len(found)
        self.write(who, "acknowledged", p=partition, k=kind, r=[[o, o] for o in found], error=error)
