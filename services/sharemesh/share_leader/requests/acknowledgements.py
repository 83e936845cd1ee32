"""Acknowledgements of one request, over its partitions: checks, machine, durable answers."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.group_config.retry_delays import RELEASE_DELAY_MAX_MS
from sharemesh.domain.ids import GroupId, MemberId, TopicId, TopicPartition
from sharemesh.domain.share_partition.effects import Answered
from sharemesh.domain.share_partition.events import AcknowledgementBatch
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.failures import Outcome
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner
from sharemesh.share_leader.requests.access import LeaderAccess
from sharemesh.share_leader.requests.request_checks import check_count, check_topics
from sharemesh.share_leader.turns import SlicedWork
from sharemesh.v1 import share_leader_pb2 as pb

_DONE: Outcome = (ErrorCode.NONE, "")
_TYPES = {int(kind): kind for kind in AcknowledgeType}
_UNSEEN = (AcknowledgeType.RELEASE,)
_PARTITION_UNITS = 100
"""What it costs to begin the acknowledgements of one share partition, beside their batches."""

_CHECKED_AT_ONCE = 250
"""Batches that are checked in one slice (spec FAI-2)."""


@dataclass(frozen=True, slots=True)
class AcknowledgeCaller:
    """Who acknowledges, and what the request allows."""

    principal: str
    group_id: GroupId
    member_id: MemberId
    version: int  # 1 or 2: the highest type is REJECT or RENEW (spec REQ-20e)
    is_renew_ack: bool


@dataclass(slots=True)
class PendingAcknowledgements:
    """Acknowledgements under way: what is refused already, and what awaits its write."""

    refused: dict[TopicPartition, Outcome] = field(default_factory=dict)
    awaited: dict[TopicPartition, "asyncio.Future[Answered]"] = field(default_factory=dict)
    batches: dict[TopicPartition, tuple[AcknowledgementBatch, ...]] = field(default_factory=dict)
    early: dict[TopicPartition, int] = field(default_factory=dict)  # with their leader epochs
    waits_until_s: float | None = None  # for states that are not read yet; of the loop's clock

    def __bool__(self) -> bool:
        return bool(self.refused or self.awaited)


def check_size(topics: Sequence[pb.AcknowledgeTopic], environment: LeaderEnvironment) -> int:
    """Return how many acknowledgement batches a request holds.

    Raises:
        RefusedError: INVALID_REQUEST, naming the bound; it names more than the leader is willing to
            walk through.
    """
    settings = environment.settings
    check_topics(topics, settings.max_partitions_per_request)
    count = sum(len(each.acknowledgement_batches) for topic in topics for each in topic.partitions)
    check_count("acknowledgement batches", count, settings.max_acknowledge_batches)
    if count:
        check_count(
            "acknowledge types",
            sum(
                len(batch.acknowledge_types)
                for topic in topics
                for each in topic.partitions
                for batch in each.acknowledgement_batches
            ),
            settings.max_acknowledge_offsets,
        )
    return count


class Acknowledgements:
    """Carries acknowledgements to the share partitions and their results back."""

    def __init__(
        self, environment: LeaderEnvironment, partitions: LedPartitions, access: LeaderAccess
    ) -> None:
        self._environment = environment
        self._partitions = partitions
        self._access = access

    async def begin(
        self, who: AcknowledgeCaller, topics: Iterable[pb.AcknowledgeTopic]
    ) -> PendingAcknowledgements:
        """Check and start the acknowledgements of a request; writes continue in the background.

        Partitions without acknowledgement batches are left out (spec REQ-8 is the caller's). A
        small request is begun without a turn of the loop in between, a large one in slices.
        """
        under_way = await self.begin_known(who, topics)
        await self.begin_early(who, under_way)
        return under_way

    async def begin_known(
        self, who: AcknowledgeCaller, topics: Iterable[pb.AcknowledgeTopic]
    ) -> PendingAcknowledgements:
        """Check all, and start where it is known whether the locks are here (HND-4, HND-10).

        The rest is ``early``, and for ``begin_early``.
        """
        under_way = PendingAcknowledgements()
        work = SlicedWork(self._environment.turns, who.group_id)
        for partition, entries in _by_partition(topics).items():
            await self._begin_one(who, partition, entries, under_way, work)
        return under_way

    async def begin_early(self, who: AcknowledgeCaller, under_way: PendingAcknowledgements) -> None:
        """Wait for the end of hand-overs, and for states to be read; then start what waits."""
        for partition, leader_epoch in under_way.early.items():
            try:
                await self._partitions.required(partition).until_handed_over()
                led = self._partitions.required(partition)
                if 0 < leader_epoch < led.leader_epoch:
                    await self._until_read(led.share(who.group_id), under_way)
                    await led.until_handed_over()
                self._check_rights(who, partition)
                self._start(who, partition, leader_epoch, under_way)
            except RefusedError as refused:
                under_way.refused[partition] = (refused.error, refused.message)

    async def finish(self, under_way: PendingAcknowledgements) -> dict[TopicPartition, Outcome]:
        """Return the result of each partition, once all writes are durable or refused."""
        outcomes = dict(under_way.refused)
        for partition, answer in under_way.awaited.items():
            answered = await answer  # a caller that goes away cancels only this future
            outcomes[partition] = (answered.error, answered.message)
            if not answered.error:
                _count(self._environment.counters.acknowledged, under_way.batches[partition])
        self._count_requests(outcomes)
        return outcomes

    async def _begin_one(
        self,
        who: AcknowledgeCaller,
        partition: TopicPartition,
        entries: Sequence[pb.AcknowledgePartition],
        under_way: PendingAcknowledgements,
        work: SlicedWork,
    ) -> None:
        try:
            self._check_rights(who, partition)
            listed = _only(entries)
            batches = await _checked_in_slices(listed, who, partition, work)
            await work.spend(partition, _PARTITION_UNITS + _units(batches))
            if work.has_waited:
                self._check_rights(who, partition)
            under_way.batches[partition] = batches
            led = self._partitions.required(partition)
            if led.is_handing_over or _is_early(led, who.group_id, listed.leader_epoch):
                under_way.early[partition] = listed.leader_epoch
            else:
                self._start(who, partition, listed.leader_epoch, under_way)
        except RefusedError as refused:
            under_way.refused[partition] = (refused.error, refused.message)

    def _start(
        self,
        who: AcknowledgeCaller,
        partition: TopicPartition,
        leader_epoch: int,
        under_way: PendingAcknowledgements,
    ) -> None:
        led = self._partitions.required(partition)
        if 0 < leader_epoch < led.leader_epoch:
            runner = _taken_over(led, who.group_id, leader_epoch)
            acquired_in = leader_epoch
        else:
            runner, acquired_in = _runner_of(led, who.group_id, leader_epoch), 0
        under_way.awaited[partition] = runner.acknowledge(
            who.member_id, under_way.batches[partition], acquired_in, who.principal
        )

    async def _until_read(
        self, runner: SharePartitionRunner, under_way: PendingAcknowledgements
    ) -> None:
        """Wait until it is known which locks live on here; all partitions share the limit (HND-10).

        Raises:
            RefusedError: LEADER_NOT_AVAILABLE: it is not known yet.
        """
        if runner.phase is Phase.ACTIVE:
            return
        now_s = asyncio.get_running_loop().time()
        if under_way.waits_until_s is None:
            under_way.waits_until_s = now_s + self._environment.settings.hand_over_ms / 1_000
        try:
            async with asyncio.timeout_at(under_way.waits_until_s):
                await runner.until_begun()
            unknown = runner.phase is Phase.ENDED
        except TimeoutError:
            unknown = True
        if unknown:
            raise RefusedError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"the state of partition {runner.key.partition} is not read yet; try again",
            )

    def _check_rights(self, who: AcknowledgeCaller, partition: TopicPartition) -> None:
        self._access.group(who.principal, who.group_id)
        self._access.topic(who.principal, partition)

    def _count_requests(self, outcomes: dict[TopicPartition, Outcome]) -> None:
        counters = self._environment.counters
        topic = self._environment.view.topic  # ids that are none are not counted: there is no end
        asked = {p.topic_id for p in outcomes}
        failed = {p.topic_id for p, (error, _) in outcomes.items() if error}
        counters.acknowledge_requests.update(each for each in asked if topic(each))
        counters.failed_acknowledge_requests.update(each for each in failed if topic(each))


def _by_partition(
    topics: Iterable[pb.AcknowledgeTopic],
) -> dict[TopicPartition, list[pb.AcknowledgePartition]]:
    """Return the entries that hold acknowledgements; nothing starts before all are known."""
    entries: dict[TopicPartition, list[pb.AcknowledgePartition]] = {}
    for topic in topics:
        topic_id = TopicId(topic.topic_id)
        for listed in topic.partitions:
            if listed.acknowledgement_batches:
                entries.setdefault(TopicPartition(topic_id, listed.partition), []).append(listed)
    return entries


def _only(entries: Sequence[pb.AcknowledgePartition]) -> pb.AcknowledgePartition:
    """Return the one entry of a partition (spec REQ-23).

    Raises:
        RefusedError: INVALID_REQUEST if there are more; nothing of any is applied.
    """
    if len(entries) > 1:
        raise invalid_request(
            f"partition {entries[0].partition} is listed twice with acknowledgements, of which "
            "none took effect; list it once, with all batches in order"
        )
    return entries[0]


def _is_early(led: LedPartition, group_id: GroupId, leader_epoch: int) -> bool:
    """Whether it is not known yet which locks of an earlier leader epoch live on here."""
    return 0 < leader_epoch < led.leader_epoch and led.share(group_id).is_awaited


def _taken_over(led: LedPartition, group_id: GroupId, leader_epoch: int) -> SharePartitionRunner:
    """Return the share partition, if locks of an earlier leader epoch live on in it (HND-10).

    Raises:
        RefusedError: INVALID_RECORD_STATE.
    """
    runner = led.shares.get(group_id)
    if runner is None or not runner.took_from(leader_epoch):
        raise RefusedError(
            ErrorCode.INVALID_RECORD_STATE,
            f"the records were acquired in leader epoch {leader_epoch}, which has ended (now "
            f"{led.leader_epoch}): their locks are gone, they will be delivered again",
        )
    return runner


def _runner_of(led: LedPartition, group_id: GroupId, leader_epoch: int) -> SharePartitionRunner:
    """Return the share partition of what was acquired in this leader epoch (LOG-22).

    Raises:
        RefusedError: NOT_LEADER_OR_FOLLOWER or UNKNOWN_TOPIC_OR_PARTITION.
    """
    if leader_epoch > led.leader_epoch:
        raise RefusedError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"the records were acquired in leader epoch {leader_epoch}, this node leads in "
            f"{led.leader_epoch}; refresh metadata",
        )
    runner = led.shares.get(group_id)
    if runner is None:
        raise RefusedError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"group {group_id!r} has nothing acquired in partition "
            f"{led.partition.partition} here; fetch first",
        )
    return runner


def _units(batches: Iterable[AcknowledgementBatch]) -> int:
    """Return about how many microseconds the machine, or a check, takes for them."""
    return sum(2 + len(each.types) for each in batches)


async def _checked_in_slices(
    listed: pb.AcknowledgePartition,
    who: AcknowledgeCaller,
    partition: TopicPartition,
    work: SlicedWork,
) -> tuple[AcknowledgementBatch, ...]:
    """Return the batches of one partition as the machine takes them (spec REQ-20).

    Raises:
        RefusedError: INVALID_REQUEST; nothing of the partition is applied.
    """
    sent = listed.acknowledgement_batches
    if len(sent) <= _CHECKED_AT_ONCE:
        return _checked(sent, who)
    checked: list[AcknowledgementBatch] = []
    for first in range(0, len(sent), _CHECKED_AT_ONCE):
        part = sent[first : first + _CHECKED_AT_ONCE]
        await work.spend(partition, sum(2 + len(each.acknowledge_types) for each in part))
        checked += _checked(part, who, checked[-1].last_offset if checked else -1)
    return tuple(checked)


def _checked(
    batches: Sequence[pb.AcknowledgementBatch], who: AcknowledgeCaller, previous_last: int = -1
) -> tuple[AcknowledgementBatch, ...]:
    """Return batches that follow ``previous_last`` as the machine takes them.

    Raises:
        RefusedError: INVALID_REQUEST.
    """
    checked: list[AcknowledgementBatch] = []
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last:
            raise invalid_request(f"batch {first}-{last} ends before it begins")
        if first < 0:
            raise invalid_request(f"batch {first}-{last} begins below offset 0")
        if first < previous_last:
            raise invalid_request(f"batch {first}-{last} is not in order after {previous_last}")
        if not types:
            raise invalid_request(f"batch {first}-{last} has no acknowledge type; send one for all")
        if len(types) > 1 and len(types) != last - first + 1:
            raise invalid_request(
                f"batch {first}-{last} has {len(types)} acknowledge types; send one for all "
                "or one for each offset"
            )
        known = _known_types(types, who)
        if batch.uncounted and known != _UNSEEN:  # spec HBK-1
            raise invalid_request(
                f"batch {first}-{last} is uncounted; send the one type 2 (RELEASE) with it"
            )
        delay_ms = batch.release_delay_ms if batch.HasField("release_delay_ms") else None
        if delay_ms is not None:  # spec RTY-1
            _check_delay(first, last, known, delay_ms)
        if batch.delivery_count < 0:
            raise invalid_request(f"batch {first}-{last} has a delivery count below 0")
        made = (first, last, known, batch.uncounted, batch.delivery_count, delay_ms)
        checked.append(AcknowledgementBatch(*made))
        previous_last = last
    return tuple(checked)


def _check_delay(first: int, last: int, types: tuple[AcknowledgeType, ...], delay_ms: int) -> None:
    if types != _UNSEEN:
        raise invalid_request(
            f"batch {first}-{last} has a delay; send the one type 2 (RELEASE) with it"
        )
    if not 0 <= delay_ms <= RELEASE_DELAY_MAX_MS:
        raise invalid_request(
            f"batch {first}-{last} has a delay of {delay_ms} ms; send 0 to {RELEASE_DELAY_MAX_MS}"
        )


def _known_types(types: Sequence[int], who: AcknowledgeCaller) -> tuple[AcknowledgeType, ...]:
    highest = AcknowledgeType.RENEW if who.version >= 2 else AcknowledgeType.REJECT
    for kind in set(types):
        if not 0 <= kind <= highest:
            raise invalid_request(f"acknowledge type {kind} is not one of 0..{highest.value}")
        if kind == AcknowledgeType.RENEW and not who.is_renew_ack:
            raise invalid_request("acknowledge type 4 (RENEW) needs is_renew_ack")
    return tuple([_TYPES[kind] for kind in types])


def _count(totals: "Counter[AcknowledgeType]", batches: Iterable[AcknowledgementBatch]) -> None:
    """Count offsets by type (spec MET-1), without gaps and uncounted releases."""
    for batch in batches:
        if batch.uncounted:
            continue
        if len(batch.types) == 1:
            totals[AcknowledgeType(batch.types[0])] += batch.last_offset - batch.first_offset + 1
        else:
            totals.update(AcknowledgeType(kind) for kind in batch.types)
    totals.pop(AcknowledgeType.GAP, None)
