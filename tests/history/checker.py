"""Checks a history of deliveries and acknowledgements against the promises of ARCHITECTURE 1.

Order between two grants of one offset is (leader epoch, delivery count): counts rise within an
epoch, epochs rise over leader changes. So a delivery that was read late from a buffer is told
apart from one that was granted after a confirmed acknowledgement, without trusting clocks.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType

from tests.history.journal import Entry

FINAL = {"accept", "reject"}


@dataclass(slots=True)
class Delivery:
    """One record as one member saw it."""

    who: str
    epoch: int
    count: int
    time_ms: float


@dataclass(frozen=True, slots=True)
class Decision:
    """A final acknowledgement that was confirmed, and the grant it was for."""

    kind: str
    grant: Delivery | None
    time_ms: float


class Promise(StrEnum):
    """What a violation breaks."""

    ONE_RECORD = "an offset is confirmed for one record"
    AT_LEAST_ONCE = "every record is delivered and finished"
    EXCLUSIVE = "one holder at a time"
    DELIVERY_COUNT = "deliveries are counted and limited"
    FINAL = "what was confirmed is final"


StartOffsetAt = Callable[[str, float], int]


@dataclass(slots=True)
class Report:
    """What the history says; ``broken`` is empty when all promises hold."""

    produced: int = 0
    delivered: int = 0
    redelivered: int = 0
    accepted: int = 0
    rejected: int = 0
    refused_acknowledgements: int = 0
    late_acknowledgements: int = 0
    archived_unseen: int = 0
    redelivery_reasons: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[Promise, str]] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        """What is broken, as sentences that name partition and offset."""
        return [text for _, text in self.broken]

    def breaks(self, promise: Promise, text: str) -> None:
        """Add a violation."""
        self.broken.append((promise, text))


class History:
    """Collects entries, then judges."""

    def __init__(self, *, delivery_count_limit: int) -> None:
        self._limit = delivery_count_limit
        self._produced: dict[str, set[int]] = defaultdict(set)
        self._deliveries: dict[tuple[str, int], list[Delivery]] = defaultdict(list)
        self._final: dict[tuple[str, int], list[Decision]] = defaultdict(list)
        self._released: Counter[tuple[str, int]] = Counter()
        self._handed_back: dict[tuple[str, int], Counter[tuple[int, int]]] = {}
        self._refused = 0
        self._exact = False
        self._confirmed_twice: list[str] = []

    def add(self, entries: Iterable[Entry]) -> None:
        """Take entries in order of time."""
        for entry in entries:
            if entry.event == "produced":
                for first, last in entry.fields["r"]:
                    self._confirmed(entry.fields["p"], first, last)
            elif entry.event == "delivered":
                self._delivered(entry)
            elif entry.event == "acknowledged":
                self._acknowledged(entry)
            elif entry.event == "handed_back":
                self._hands_back(entry)

    def _confirmed(self, partition: str, first: int, last: int) -> None:
        produced = self._produced[partition]
        for offset in range(first, last + 1):
            if offset in produced:  # two writers of one log
                self._confirmed_twice.append(f"{partition}@{offset} was confirmed for two records")
            produced.add(offset)

    def _delivered(self, entry: Entry) -> None:
        partition, epoch = entry.fields["p"], entry.fields["le"]
        for first, last, count in entry.fields["r"]:
            for offset in range(first, last + 1):
                # An application may look at a record long after its leader has granted it.
                time_ms = entry.fields.get("granted_ms", entry.time_ms)
                self._deliveries[partition, offset].append(
                    Delivery(entry.who, epoch, count, time_ms)
                )

    def _hands_back(self, entry: Entry) -> None:
        """A member asks for a release that does not count: the next delivery has the same count."""
        for first, last, count in entry.fields["r"]:
            for offset in range(first, last + 1):
                key = entry.fields["p"], offset
                self._handed_back.setdefault(key, Counter())[entry.fields["le"], count] += 1

    def _acknowledged(self, entry: Entry) -> None:
        partition, kind = entry.fields["p"], entry.fields["k"]
        for first, last in entry.fields["r"]:
            for offset in range(first, last + 1):
                if entry.fields["error"] is not None:
                    self._refused += 1
                elif kind in FINAL:
                    mine = [d for d in self._deliveries[partition, offset] if d.who == entry.who]
                    self._final[partition, offset].append(
                        Decision(kind, mine[-1] if mine else None, entry.time_ms)
                    )
                elif kind == "release":
                    self._released[partition, offset] += 1

    def judge(
        self,
        start_offsets: dict[str, int],
        terminal: dict[str, set[int]],
        start_offset_at: StartOffsetAt | None = None,
        excused: Mapping[str, set[int]] = MappingProxyType({}),
        unstored: Mapping[str, Mapping[int, int]] = MappingProxyType({}),
        *,
        finished_at: StartOffsetAt | None = None,
    ) -> Report:
        """Return the report.

        Args:
            start_offsets: SPSO of each partition at the end; everything below is finished.
            terminal: Offsets at or above it that are acknowledged or archived.
            start_offset_at: SPSO of a partition at a time of the journals (ms), as its leader had
                it; without it the SPSO at the end is the bound, which excuses more.
            excused: Offsets that were archived by the delivery limit although nobody has seen them:
                each member that was to get them died, or was cut off, before it could hand them
                out or hand them back (docs/spec HBK).
            unstored: How many deliveries of an offset beyond one for each change of leader are not
                counted, because the end of their locks could not be stored (docs/spec LK-6, INV-5).
            finished_at: SPSO that its leaders surely had at a time, where ``start_offset_at`` is
                only known to be no lower: a leader may never hear that its write is durable.
        """
        report = Report(refused_acknowledgements=self._refused)
        at = start_offset_at or (lambda partition, _: start_offsets.get(partition, 0))
        self._exact = start_offset_at is not None
        report.broken += [(Promise.ONE_RECORD, text) for text in self._confirmed_twice]
        for partition, offsets in self._produced.items():
            report.produced += len(offsets)
            start, done = start_offsets.get(partition, 0), terminal.get(partition, set())
            open_offsets = sorted(o for o in offsets if o >= start and o not in done)
            if open_offsets:
                text = f"{partition}@{open_offsets[0]} is not finished: lost or stuck"
                others = f"; {len(open_offsets)} records of {partition} in all"
                report.breaks(Promise.AT_LEAST_ONCE, text + others)
            unseen = [o for o in offsets if (partition, o) not in self._deliveries]
            never = [o for o in unseen if o not in excused.get(partition, ())]
            report.archived_unseen += len(unseen) - len(never)
            if never:
                text = f"{partition}@{min(never)} was confirmed and never delivered"
                others = f"; {len(never)} records of {partition} in all"
                report.breaks(Promise.AT_LEAST_ONCE, text + others)
        self._judge_deliveries(report, at, finished_at or at, unstored)
        return report

    def _judge_deliveries(
        self,
        report: Report,
        at: StartOffsetAt,
        finished_at: StartOffsetAt,
        unstored: Mapping[str, Mapping[int, int]],
    ) -> None:
        for (partition, offset), deliveries in self._deliveries.items():
            report.delivered += 1
            report.redelivered += len(deliveries) - 1
            where = f"{partition}@{offset}"
            grants = Counter((d.epoch, d.count) for d in deliveries)
            handed_back = self._handed_back.get((partition, offset), Counter())
            twice = [grant for grant, number in grants.items() if number > 1 + handed_back[grant]]
            if twice:
                report.breaks(
                    Promise.EXCLUSIVE,
                    f"{where} was granted twice in leader epoch {twice[0][0]} with delivery count "
                    f"{twice[0][1]}",
                )
            epochs = {d.epoch for d in deliveries}
            lost = len(epochs) - 1 + unstored.get(partition, {}).get(offset, 0)
            lost += handed_back.total()
            if len(deliveries) > self._limit + lost:
                report.breaks(
                    Promise.DELIVERY_COUNT,
                    f"{where} was delivered {len(deliveries)} times in {len(epochs)} leader "
                    f"epochs, limit {self._limit}",
                )
            self._count_reasons(report, (partition, offset), deliveries)
            final = self._final.get((partition, offset), [])
            decisive = self._decisive(final)
            late = [
                each
                for each in final
                if _comes_late(each, decisive, offset, partition, at)
                or (
                    self._exact
                    and at(partition, each.time_ms) > offset
                    and (
                        _repeats(each, decisive, deliveries)
                        or _is_superseded(each, deliveries)
                        or _was_finished(each, offset, partition, finished_at)
                    )
                )
            ]
            report.late_acknowledgements += len(late)
            final = [each for each in final if not any(each is other for other in late)]
            self._judge_final(report, where, final, deliveries)

    def _decisive(self, final: list[Decision]) -> Decision | None:
        """Return what decided: the first answer, but answers overtake each other on their way.

        Where the start offset is known at every time the newest grant is taken instead.
        """
        granted = [each for each in final if each.grant is not None]
        if not self._exact or len(granted) < len(final):
            return final[0] if final else None
        return max(granted, key=_grant_order, default=None)

    def _count_reasons(
        self, report: Report, key: tuple[str, int], deliveries: list[Delivery]
    ) -> None:
        releases = self._released[key]
        ordered = sorted(deliveries, key=lambda d: (d.epoch, d.count))
        for before, after in pairwise(ordered):
            if after.epoch != before.epoch:
                report.redelivery_reasons["its leader changed while it was held"] += 1
            elif releases > 0:
                releases -= 1
                report.redelivery_reasons["its holder released it"] += 1
            else:
                report.redelivery_reasons["its holder died or its lock expired"] += 1

    def _judge_final(
        self,
        report: Report,
        where: str,
        final: list[Decision],
        deliveries: list[Delivery],
    ) -> None:
        if not final:
            return
        kind, grant = final[0].kind, final[0].grant
        report.accepted += kind == "accept"
        report.rejected += kind == "reject"
        if len(final) > 1:
            text = f"{where} was acknowledged finally {len(final)} times"
            report.breaks(Promise.FINAL, text)
        if grant is None:
            text = f"{where} was acknowledged by a member that never held it"
            report.breaks(Promise.EXCLUSIVE, text)
            return
        later = [d for d in deliveries if (d.epoch, d.count) > (grant.epoch, grant.count)]
        if later:
            report.breaks(
                Promise.FINAL,
                f"{where} was delivered to {later[0].who} (epoch {later[0].epoch}, count "
                f"{later[0].count}) after {grant.who} had its {kind} confirmed (epoch "
                f"{grant.epoch}, count {grant.count})",
            )


def _grant_order(decision: Decision) -> tuple[int, int]:
    assert decision.grant is not None
    return decision.grant.epoch, decision.grant.count


def _comes_late(
    late: Decision, decisive: Decision | None, offset: int, partition: str, at: StartOffsetAt
) -> bool:
    """Return whether a final acknowledgement changed nothing, though it was answered with success.

    Its grant is older than the one that decided, whose holder had the record already, and the
    start offset had passed the record by the time of the answer: such an acknowledgement is
    skipped (spec ACK-4, ACK-8). Above the start offset it would have been a second decision.
    """
    if late.grant is None or decisive is None or decisive.grant is None:
        return False
    if at(partition, late.time_ms) <= offset or decisive.grant.time_ms > late.time_ms:
        return False
    return _grant_order(late) < _grant_order(decisive)


def _is_superseded(late: Decision, deliveries: list[Delivery]) -> bool:
    """Return whether another delivery of the record had come before this answer.

    That one decided: by an answer that nobody heard, or by the delivery count limit. This word is
    skipped as the start offset has passed the record.
    """
    return late.grant is not None and any(
        each.time_ms < late.time_ms and (each.epoch, each.count) > _grant_order(late)
        for each in deliveries
    )


def _was_finished(late: Decision, offset: int, partition: str, at: StartOffsetAt) -> bool:
    """Return whether the start offset had passed the record before it was granted.

    The log start may move into a batch; Kafka's leaders grant that batch whole (docs/spec ACQ-4),
    each leader anew, and words on what lies below the start offset decide nothing (ACK-4).
    """
    return late.grant is not None and at(partition, late.grant.time_ms) > offset


def _repeats(late: Decision, decisive: Decision | None, deliveries: list[Delivery]) -> bool:
    """Return whether the holder said something again, of a record that it had more than once.

    Its word on an expired grant was taken for the grant that it got since; then its word on that
    one comes late, and is skipped because the start offset has passed the record.
    """
    if late is decisive or late.grant is None or decisive is None or decisive.grant is None:
        return False
    had = sum(each.who == late.grant.who for each in deliveries)
    return late.grant == decisive.grant and had > 1
