"""Which share partitions need state at the share coordinator (spec GC-26 to GC-31).

The intended start offset is part of the record, and every try repeats it: neither a coordinator
that fails over in between nor a failed try turns the -1 of a topic never read (the reset policy
decides) into the 0 of new partitions. Kafka forgets it (quirk GC-29, and GC-28 after a failure).
Each attempt has its own state epoch, so that a late earlier one is fenced and changes nothing.
"""

from collections.abc import Mapping
from dataclasses import replace

from sharemesh.domain.ids import TopicId
from sharemesh.domain.share_group.context import (
    FAILED_RETRY_INTERVAL_MS,
    GroupContext,
    GroupDecision,
    GroupUpdate,
    InitializePlan,
    TopicImage,
)
from sharemesh.domain.share_group.group import ShareGroup
from sharemesh.domain.share_group.records import (
    NEVER_MS,
    GroupLogRecord,
    GroupMetadata,
    InitializedTopic,
    InitializingPartition,
    InitializingTopic,
    StatePartitionMetadata,
)

NEVER_READ = -1
"""Start offset of a topic the group never read: the leader applies the reset policy (INI-4)."""
NEW_PARTITION = 0
"""Start offset of partitions added to a topic the group knows (spec GC-27)."""


def retry_due(group: ShareGroup, group_context: GroupContext) -> bool:
    """Return whether an initialization has been without an answer for too long (spec GC-28)."""
    return any(_overdue(topic, group_context) for topic in group.initializing.values())


def next_retry_ms(group: ShareGroup, retry_interval_ms: int) -> int | None:
    """Return the monotonic moment of the next retry, or None if nothing is initializing."""
    moments = [topic.since_ms + retry_interval_ms for topic in group.initializing.values()]
    return min(moments, default=None)


def plan_initialization(draft: GroupUpdate, group_context: GroupContext) -> InitializePlan | None:
    """Put what is not initialized into initializing and return what must be sent (spec GC-26)."""
    wanted = _wanted_topics(draft.group, group_context)
    tries = {topic: _tries(draft.group, topic, group_context) for topic in wanted}
    planned = {topic: each for topic, each in tries.items() if each}
    return draft.initialize(planned, group_context.now_ms) if planned else None


def initialization_ended(
    group: ShareGroup,
    plan: InitializePlan,
    failed: Mapping[TopicId, frozenset[int]],
    group_context: GroupContext,
    *,
    known_epoch: int = 0,
) -> GroupDecision[None]:
    """Move what was initialized; what failed stays and is due again soon (spec GC-28).

    Partitions that are no longer initializing under the plan's state epoch are passed over. If the
    share coordinator knew a higher state epoch (``known_epoch``: a deleted group or topic had it),
    the group epoch rises to it, and the next try, under a higher one, is due at once.
    """
    initializing = dict(group.initializing)
    initialized = dict(group.initialized)
    changed = False
    for topic_id, tries in plan.topics.items():
        pending = initializing.get(topic_id)
        if pending is None:
            continue
        bad = failed.get(topic_id, frozenset())
        current = {
            number: each for number, each in tries.items() if pending.partitions.get(number) == each
        }
        done = {number: each.state_epoch for number, each in current.items() if number not in bad}
        if not current:
            continue
        changed = True
        left = {number: each for number, each in pending.partitions.items() if number not in done}
        if left:
            since_ms = pending.since_ms
            if len(current) > len(done):
                since_ms = _due_again(group_context, at_once=known_epoch >= group.epoch)
            initializing[topic_id] = InitializingTopic(pending.topic_name, left, since_ms)
        else:
            del initializing[topic_id]
        if done:
            before = initialized.get(topic_id)
            merged = {**(before.partitions if before else {}), **done}
            initialized[topic_id] = InitializedTopic(
                pending.topic_name, dict(sorted(merged.items()))
            )
    if not changed:
        return GroupDecision((), None)
    records: list[GroupLogRecord] = [
        StatePartitionMetadata(group.group_id, initializing, initialized, group.deleting)
    ]
    records.extend(epoch_raised(group, known_epoch).records)
    return GroupDecision(tuple(records), None)


def epoch_raised(group: ShareGroup, epoch: int) -> GroupDecision[None]:
    """Raise the group epoch to ``epoch`` if it is lower."""
    if epoch <= group.epoch:
        return GroupDecision((), None)
    return GroupDecision((GroupMetadata(group.group_id, epoch, group.metadata_hash),), None)


def _due_again(group_context: GroupContext, *, at_once: bool) -> int:
    """Return a ``since_ms`` by which a failed try is due at once, or after a pause."""
    if at_once:
        return NEVER_MS
    pause_ms = min(FAILED_RETRY_INTERVAL_MS, group_context.initialize_retry_interval_ms)
    return group_context.now_ms - group_context.initialize_retry_interval_ms + pause_ms


def _wanted_topics(group: ShareGroup, group_context: GroupContext) -> list[TopicImage]:
    """Topics that are subscribed to, and those with an initialization to repeat."""
    found = {
        topic.topic_id: topic
        for name in group.subscribed_names
        if (topic := group_context.catalog.named(name)) is not None
    }
    for topic_id in group.initializing:
        topic = group_context.catalog.with_id(topic_id)
        if topic is not None:
            found[topic_id] = topic
    return sorted(found.values(), key=lambda topic: topic.name)


def _tries(
    group: ShareGroup, topic: TopicImage, group_context: GroupContext
) -> dict[int, InitializingPartition]:
    initialized = group.initialized.get(topic.topic_id)
    pending = group.initializing.get(topic.topic_id)
    have = initialized.partitions if initialized is not None else {}
    trying = pending.partitions if pending is not None else {}
    known = initialized is not None or pending is not None
    tries: dict[int, InitializingPartition] = {}
    if pending is not None and _overdue(pending, group_context):
        for number, each in trying.items():
            tries[number] = replace(each, state_epoch=group.epoch)
    start_offset = NEW_PARTITION if known else NEVER_READ
    subscribed = topic.name in group.subscribed_names
    for number in range(topic.partitions if subscribed else 0):
        if number not in have and number not in trying:
            tries[number] = InitializingPartition(start_offset, group.epoch)
    return tries


def _overdue(topic: InitializingTopic, group_context: GroupContext) -> bool:
    return group_context.now_ms - topic.since_ms >= group_context.initialize_retry_interval_ms
