"""Reads journals while they grow: who holds what, and when each partition delivered what epoch."""

import json
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Seen:
    """One range of offsets that one member got, or decided on."""

    time_ms: float
    who: str
    epoch: int
    first: int
    last: int


@dataclass(slots=True)
class PartitionTail:
    """What the journals say of one partition; times rise."""

    deliveries: list[Seen] = field(default_factory=list)
    decisions: list[Seen] = field(default_factory=list)
    confirmed_ms: list[float] = field(default_factory=list)
    newest: int = -1
    """The newest offset that was confirmed to the producer."""

    @property
    def epoch(self) -> int:
        """The highest leader epoch that delivered."""
        return max((seen.epoch for seen in self.deliveries), default=-1)


class Tail:
    """Call ``read`` now and then; it takes only what is new."""

    def __init__(self, journals: Path) -> None:
        self._journals = journals
        self._offsets: dict[Path, int] = defaultdict(int)
        self.partitions: dict[str, PartitionTail] = defaultdict(PartitionTail)

    def read(self) -> None:
        """Take the whole lines that were written since the last call."""
        for path in self._journals.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._offsets[path])
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._offsets[path] += len(whole)
            for line in whole.splitlines():
                self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        event = line["e"]
        if event == "delivered":
            into = self.partitions[line["p"]].deliveries
        elif event == "decided":
            into = self.partitions[line["p"]].decisions
        else:
            if event == "acknowledged" and line["error"] is None:
                self.partitions[line["p"]].confirmed_ms.append(line["t"])
            elif event == "produced":
                tail = self.partitions[line["p"]]
                tail.newest = max(tail.newest, line["r"][-1][1])
            return
        into.extend(Seen(line["t"], line["w"], line["le"], r[0], r[1]) for r in line["r"])

    def epochs(self) -> dict[str, int]:
        """Return the highest epoch of each partition that delivered."""
        return {name: tail.epoch for name, tail in self.partitions.items()}

    def held(self, partitions: Collection[str], at_ms: float) -> dict[str, set[int]]:
        """Return offsets delivered and not decided on at a time; ask soon after it."""
        held: dict[str, set[int]] = {}
        for name in partitions:
            tail = self.partitions[name]
            newest = tail.epoch
            got = {
                offset
                for seen in tail.deliveries
                if seen.time_ms <= at_ms and seen.epoch == newest
                for offset in range(seen.first, seen.last + 1)
            }
            for seen in tail.decisions:
                if seen.time_ms <= at_ms and seen.epoch == newest:
                    got.difference_update(range(seen.first, seen.last + 1))
            held[name] = got
        return held

    def first_delivery_ms(
        self, partition: str, after_ms: float, *, above: int = -1, other_than: str = ""
    ) -> float | None:
        """Return when a partition first delivered after a time, in an epoch above one."""
        times = [
            seen.time_ms
            for seen in self.partitions[partition].deliveries
            if seen.time_ms > after_ms and seen.epoch > above and seen.who != other_than
        ]
        return min(times, default=None)

    def forget_before(self, time_ms: float) -> None:
        """Drop what is older, so that long series stay fast."""
        for tail in self.partitions.values():
            tail.deliveries = [seen for seen in tail.deliveries if seen.time_ms >= time_ms]
            tail.decisions = [seen for seen in tail.decisions if seen.time_ms >= time_ms]
            tail.confirmed_ms = [found for found in tail.confirmed_ms if found >= time_ms]


def largest_gap_ms(times_ms: list[float], since_ms: float, until_ms: float) -> float:
    """Return the longest time without an event between two times."""
    inside = sorted(t for t in times_ms if since_ms < t < until_ms)
    edges = [since_ms, *inside, until_ms]
    return max(after - before for before, after in pairwise(edges))


def last_outage_end_ms(times_ms: list[float], since_ms: float, outage_ms: float) -> float:
    """Return when the last pause of more than ``outage_ms`` after a time ended; 0: none was."""
    inside = sorted(t for t in times_ms if t > since_ms)
    edges = [since_ms, *inside]
    ends = [after for before, after in pairwise(edges) if after - before > outage_ms]
    return ends[-1] - since_ms if ends else 0.0


def redelivered_after_decision(
    tail: PartitionTail, epoch: int, since_ms: float, until_ms: float
) -> list[int]:
    """Return offsets whose holder decided between two times, and that came again later."""
    decided: dict[int, float] = {}
    for seen in tail.decisions:
        if seen.epoch == epoch and since_ms <= seen.time_ms <= until_ms:
            for offset in range(seen.first, seen.last + 1):
                decided[offset] = seen.time_ms
    again = {
        offset
        for seen in tail.deliveries
        if seen.epoch > epoch
        for offset in range(seen.first, seen.last + 1)
        if offset in decided
    }
    return sorted(again)
