"""What passes between application, network side and leader: deliveries and acknowledgements."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from sharemesh.client.errors import SharemeshError
from sharemesh.client.records import NO_GRANT, AcquiredRange, RecordGrant, TopicIdPartition
from sharemesh.codec.client_batches import FoundBatch, ReadBatch, find_batches, read_batches
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.v1.share_leader_pb2 import AcknowledgementBatch

LONG_RUN_LENGTH = 10
"""A run of more equal types than this becomes a separate range."""


class Payload:
    """Bytes of record batches, decoded on the application's side, at the first access.

    The network's side only counts offsets, so a large batch costs its event loop nothing.
    """

    __slots__ = ("_batches", "_found", "_in_order", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._batches: list[ReadBatch] | None = None
        self._found: list[FoundBatch] | None = None
        self._in_order = True

    def found(self, *, check_crc: bool) -> Sequence[FoundBatch]:
        """Return the batches without decoding their records."""
        if self._found is None:
            self._found = list(find_batches(self.data, check_crc=check_crc))
        return self._found

    def batches(self, first: int, last: int, *, check_crc: bool) -> Iterator[ReadBatch]:
        """Yield the batches that touch ``first..last``, both included."""
        found = self._decoded(check_crc=check_crc)
        begin = bisect_left(found, first, key=attrgetter("last_offset")) if self._in_order else 0
        for batch in islice(found, begin, None):
            if batch.base_offset <= last and first <= batch.last_offset:
                yield batch
            elif self._in_order:
                return

    def _decoded(self, *, check_crc: bool) -> list[ReadBatch]:
        if self._batches is None:
            self._batches = list(read_batches(self.data, check_crc=check_crc))
            # Base offsets are not under the checksum, so a damaged one may be anywhere.
            ends = [end for each in self._batches for end in (each.base_offset, each.last_offset)]
            self._in_order = all(map(int.__le__, ends, islice(ends, 1, None)))
        return self._batches


def records_between(batch: ReadBatch, first: int, last: int) -> Sequence[Any]:
    """Return the records of ``batch`` with offsets from ``first`` to ``last``, both included."""
    if first <= batch.base_offset and batch.last_offset <= last:
        return batch.records
    low, high = max(first - batch.base_offset, 0), last + 1 - batch.base_offset
    dense = batch.records[low:high]  # the place is the offset, unless records are missing
    if [each.offset for each in dense] == list(range(batch.base_offset + low, last + 1)):
        return dense
    return [each for each in batch.records if first <= each.offset <= last]


class Route(Protocol):
    """The share session that acquired records; their acknowledgements go there.

    If its leader handed a partition over, the session passes on what was acquired there in that
    leader epoch or before (HND-10).
    """

    @property
    def address(self) -> str:
        """Where the leader is reached."""
        ...

    def is_open_for(self, source: TopicIdPartition, leader_epoch: int) -> bool:
        """Return whether acknowledgements of a partition's records can still be taken."""
        ...

    def may_live_on(self, source: TopicIdPartition, leader_epoch: int) -> bool:
        """Return whether the locks of a partition live on at the next leader, or may (HND-11)."""
        ...

    def follows_until_ms(self, source: TopicIdPartition, leader_epoch: int) -> int:
        """Return until when what the next leader refuses may be sent again; 0: not at all."""
        ...

    def speak(self) -> None:
        """Let the leader hear that this member goes on, if only by an empty message."""
        ...


AcquiredIn = tuple[TopicIdPartition, Route, int]
"""Partition, session and leader epoch that records were acquired in."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Records of one partition as a leader sent them, or a part of them; not decoded here.

    ``expires_ms`` is when their acquisition locks end, by this client's clock. ``waited_ms`` is
    the time since records were asked for; None if an earlier delivery was the first since then.
    """

    source: TopicIdPartition
    route: Route
    payload: Payload
    acquired: tuple[AcquiredRange, ...]
    leader_epoch: int
    lock_timeout_ms: int
    expires_ms: int
    waited_ms: int | None = None
    grant: RecordGrant = NO_GRANT

    @property
    def acquired_in(self) -> AcquiredIn:
        """What its acknowledgements begin with."""
        return self.source, self.route, self.leader_epoch

    @property
    def record_count(self) -> int:
        """AcquiredRange offsets, gaps included."""
        return sum(run.last_offset - run.first_offset + 1 for run in self.acquired)

    @property
    def runs(self) -> Sequence[range]:
        """The acquired offsets, gaps included."""
        return [range(run.first_offset, run.last_offset + 1) for run in self.acquired]

    def offsets(self) -> Iterator[int]:
        """Yield each acquired offset, gaps included."""
        for run in self.acquired:
            yield from range(run.first_offset, run.last_offset + 1)

    def delivery_counts(self) -> dict[int, int]:
        """Return the delivery count of each acquired offset, gaps included."""
        return {
            offset: run.delivery_count
            for run in self.acquired
            for offset in range(run.first_offset, run.last_offset + 1)
        }

    def split(self, count: int) -> "tuple[Delivery, Delivery]":
        """Return the first ``count`` acquired offsets, from 1 to all but one, and the rest."""
        head: list[AcquiredRange] = []
        tail: list[AcquiredRange] = []
        for run in self.acquired:
            size = run.last_offset - run.first_offset + 1
            if count >= size:
                head.append(run)
            elif count <= 0:
                tail.append(run)
            else:
                border = run.first_offset + count
                head.append(replace(run, last_offset=border - 1))
                tail.append(replace(run, first_offset=border))
            count -= size
        rest = replace(self, acquired=tuple(tail), waited_ms=None)
        return replace(self, acquired=tuple(head)), rest

    def without(self, runs: Sequence[range]) -> "Delivery | None":
        """Return what is not in these ranges of offsets; None: that is nothing."""
        left = list(self.acquired)
        for taken in runs:
            left = [part for run in left for part in _outside(run, taken)]
        return replace(self, acquired=tuple(left)) if left else None

    def overlaps(self, first_offset: int, last_offset: int) -> bool:
        """Whether an offset of ``first_offset..last_offset``, both included, is acquired here."""
        return any(
            run.first_offset <= last_offset and first_offset <= run.last_offset
            for run in self.acquired
        )


def _outside(run: AcquiredRange, taken: range) -> Iterator[AcquiredRange]:
    """Yield what lies of a range before and behind another one."""
    if run.first_offset < taken.start:
        yield replace(run, last_offset=min(run.last_offset, taken.start - 1))
    if taken.stop <= run.last_offset:
        yield replace(run, first_offset=max(run.first_offset, taken.stop))


class UniformTypes(Mapping[int, AcknowledgeType]):
    """One acknowledge type of all offsets of some ranges: nothing is kept for each offset.

    Attributes:
        kind: The type.
        runs: The ranges, not empty, in order, with others between them.
    """

    __slots__ = ("_length", "kind", "runs")

    def __init__(self, kind: AcknowledgeType, runs: Sequence[range]) -> None:
        self.kind = kind
        self.runs = joined(runs)
        self._length = sum(map(len, self.runs))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.runs)

    def __getitem__(self, offset: int) -> AcknowledgeType:
        if any(offset in run for run in self.runs):
            return self.kind
        raise KeyError(offset)

    def __repr__(self) -> str:
        return f"UniformTypes({self.kind!r}, {self.runs!r})"

    def with_those_behind(self, other: Mapping[int, AcknowledgeType]) -> "UniformTypes | None":
        """Return both as one; None if the other ones are of other types or not all behind these."""
        if not isinstance(other, UniformTypes) or other.kind is not self.kind:
            return None
        if other.runs[0].start < self.runs[-1].stop:
            return None
        return UniformTypes(self.kind, (*self.runs, *other.runs))


def joined(runs: Sequence[range]) -> Sequence[range]:
    """Return ranges, not empty and nearly always in order, in order; those that touch as one."""
    found: list[range] = []
    for run in runs:
        if not found or found[-1].stop < run.start:
            found.append(run)
        elif found[-1].stop == run.start:
            found[-1] = range(found[-1].start, run.stop)
        else:  # as damaged batches say
            return runs_of(sorted(set(chain.from_iterable(runs))))
    return found


def runs_of(offsets: Sequence[int]) -> Sequence[range]:
    """Return offsets, nearly always one behind the other, as ranges in order."""
    whole = range(offsets[0], offsets[-1] + 1)
    if len(whole) == len(offsets) and list(whole) == offsets:
        return [whole]
    return joined([range(offset, offset + 1) for offset in offsets])


def span_of(types: Mapping[int, AcknowledgeType]) -> tuple[int, int]:
    """Return the least and the greatest offset of some types, not empty."""
    if isinstance(types, UniformTypes):
        return types.runs[0].start, types.runs[-1].stop - 1
    return min(types), max(types)


class ReleaseTerms(NamedTuple):
    """What goes with a RELEASE; None: the group's back-off, 0: the delivery counts (RTY-1, HND-2).

    ``uncounted`` is else the delivery count of the delivery that does not count (HBK-7).
    """

    delay_ms: int | None = None
    uncounted: int = 0


@dataclass(frozen=True, slots=True)
class PartitionAcknowledgements:
    """Acknowledge types by offset of one partition, for the session that acquired them.

    ``ticket`` names the commit that waits for them (0: none); a refusal that may pass is tried
    again until ``deadline_ms`` of the client's clock (0: not tried again, spec CL-22).
    Results of ``unreported`` ones are dropped: the application did not ask for them, as when
    records that it never saw are given back, or locks are renewed while its handlers run.
    ``uncounted`` is the delivery count of each record if no poll has returned them: all are
    RELEASE (HBK-1), and only of the delivery with that count (HBK-7).
    ``terms`` are those of single releases; most have none. ``confirmed`` is called once the leader
    has confirmed them.
    """

    source: TopicIdPartition
    route: Route
    leader_epoch: int
    types: Mapping[int, AcknowledgeType]
    ticket: int = 0
    deadline_ms: int = 0
    unreported: bool = False
    uncounted: Mapping[int, int] | None = None
    terms: Mapping[int, ReleaseTerms] | None = None
    confirmed: Callable[[], None] | None = None

    @property
    def is_renew(self) -> bool:
        """Whether a RENEW is among them."""
        if isinstance(self.types, UniformTypes):
            return self.types.kind is AcknowledgeType.RENEW
        return AcknowledgeType.RENEW in self.types.values()


@dataclass(frozen=True, slots=True)
class AcknowledgementResult:
    """What became of acknowledgements; ``error`` is None when the leader confirmed them."""

    acknowledgements: PartitionAcknowledgements
    error: SharemeshError | None
    lock_timeout_ms: int


def encode_types(
    types: Mapping[int, AcknowledgeType], terms: Mapping[int, ReleaseTerms] | None = None
) -> list[AcknowledgementBatch]:
    """Return the ranges of ``types``, offset to acknowledge type, in order of offset (CL-27).

    Releases with terms of their own are ranges of their own, one for neighbours that are alike.
    """
    if not types:
        return []
    if isinstance(types, UniformTypes) and not terms:
        return [_batch(run.start, [types.kind], len(run)) for run in types.runs]
    offsets = sorted(types)
    if terms:
        return _encode_with_terms(offsets, types, terms)
    if offsets[-1] - offsets[0] + 1 == len(offsets):  # no holes, as nearly always
        return _encode_run(offsets[0], [types[offset] for offset in offsets])
    batches: list[AcknowledgementBatch] = []
    at = 0
    count = len(offsets)
    while at < count:
        end = at + 1
        while end < count and offsets[end] == offsets[end - 1] + 1:
            end += 1
        batches.extend(_encode_run(offsets[at], [types[offset] for offset in offsets[at:end]]))
        at = end
    return batches


def _encode_with_terms(
    offsets: Sequence[int],
    types: Mapping[int, AcknowledgeType],
    terms: Mapping[int, ReleaseTerms],
) -> list[AcknowledgementBatch]:
    batches: list[AcknowledgementBatch] = []
    for own, group in groupby(offsets, terms.get):
        some = list(group)
        if own is None:
            batches += encode_types({offset: types[offset] for offset in some})
            continue
        made: AcknowledgementBatch | None = None
        for offset in some:
            if made is not None and made.last_offset == offset - 1:
                made.last_offset = offset
                continue
            made = batch = _batch(offset, [AcknowledgeType.RELEASE], 1)
            if own.delay_ms is not None:
                batch.release_delay_ms = own.delay_ms
            if own.uncounted:
                batch.uncounted, batch.delivery_count = True, own.uncounted
            batches.append(batch)
    return batches


def encode_unseen(delivery_counts: Mapping[int, int]) -> list[AcknowledgementBatch]:
    """Return ranges that release records which no poll has returned, uncounted (HBK-20)."""
    batches: list[AcknowledgementBatch] = []
    for offset, count in sorted(delivery_counts.items()):
        last = batches[-1] if batches else None
        if last and (last.last_offset, last.delivery_count) == (offset - 1, count):
            last.last_offset = offset
            continue
        batch = _batch(offset, [AcknowledgeType.RELEASE], 1)
        batch.uncounted = True
        batch.delivery_count = count
        batches.append(batch)
    return batches


def _encode_run(first: int, types: list[AcknowledgeType]) -> list[AcknowledgementBatch]:
    """Encode consecutive offsets from ``first`` on, one type each."""
    if types.count(types[0]) == len(types):
        return [_batch(first, [types[0]], len(types))]
    batches: list[AcknowledgementBatch] = []
    mixed_from = at = 0
    count = len(types)
    while at < count:
        end = at + 1
        while end < count and types[end] == types[at]:
            end += 1
        if end - at > LONG_RUN_LENGTH:
            if mixed_from < at:
                batches.append(_mixed(first + mixed_from, types[mixed_from:at]))
            batches.append(_batch(first + at, [types[at]], end - at))
            mixed_from = end
        at = end
    if mixed_from < count:
        batches.append(_mixed(first + mixed_from, types[mixed_from:]))
    return batches


def _mixed(first: int, types: list[AcknowledgeType]) -> AcknowledgementBatch:
    if types.count(types[0]) == len(types):
        return _batch(first, [types[0]], len(types))
    return _batch(first, types, len(types))


def _batch(first: int, types: list[AcknowledgeType], length: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(
        first_offset=first, last_offset=first + length - 1, acknowledge_types=types
    )
