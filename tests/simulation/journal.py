"""What the clients of one run saw, in the words of tests/history."""

from collections import defaultdict
from collections.abc import Iterable

from tests.history.journal import Entry
from tests.simulation.world import World


class SimJournal:
    """Entries in order of virtual time, and the bytes of every record."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.entries: list[Entry] = []
        self.produced_values: dict[tuple[str, int], bytes] = {}
        self.delivered_values: dict[tuple[str, int], set[bytes]] = defaultdict(set)
        self.sent_s: dict[bytes, float] = {}
        self.trimmed_to: dict[str, int] = {}

    def write(self, who: str, event: str, **fields: object) -> None:
        """Append an entry."""
        self.entries.append(Entry(self._world.now_s * 1_000, who, event, dict(fields)))
        self._world.story.event(self._world.now_s, event, who, repr(sorted(fields.items())))

    def sent(self, value: bytes) -> None:
        """Say that a record is given to a producer."""
        self.sent_s[value] = self._world.now_s

    def trims(self, partition: str, offset: int) -> None:
        """Say that all below an offset may be deleted, from now on."""
        self.trimmed_to[partition] = max(offset, self.trimmed_to.get(partition, 0))

    def produced(self, who: str, partition: str, offset: int, value: bytes) -> None:
        """Say that an offset was confirmed."""
        self._world.story.counters["produced"] += 1
        self.produced_values[partition, offset] = value
        self.write(who, "produced", p=partition, r=[[offset, offset]])

    def delivered(self, who: str, partition: str, epoch: int, offset: int, count: int) -> None:
        """Say that a record came."""
        self._world.story.counters["delivered"] += 1
        if count > 1:
            self._world.story.counters["redelivered"] += 1
        self.write(who, "delivered", p=partition, le=epoch, r=[[offset, offset, count]])

    def acknowledged(
        self, who: str, partition: str, kind: str, offsets: Iterable[int], error: str | None
    ) -> None:
        """Say how acknowledgements ended."""
        found = sorted(offsets)
        state = "refused" if error is not None else "confirmed"
        self._world.story.counters[f"{kind} {state}"] += len(found)
        self._world.story.counters["acknowledgements"] += len(found)
        self.write(who, "acknowledged", p=partition, k=kind, r=[[o, o] for o in found], error=error)
