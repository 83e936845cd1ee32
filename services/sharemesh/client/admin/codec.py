"""How answers of the services become what the admin client returns."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sharemesh.client.admin_results import (
    ClusterDescription,
    ConfigValue,
    Explanation,
    GroupDescription,
    GroupOffset,
    MemberDescription,
    MemberNode,
    PartitionDescription,
    PartitionMove,
    PartitionPlace,
    RecordEvent,
    ShardDescription,
    TopicDescription,
    TopicPartition,
)
from sharemesh.client.errors import (
    CoordinatorNotAvailableError,
    IllegalArgumentError,
    ServiceError,
    SharemeshError,
    error_for,
    optional_error,
)
from sharemesh.codec.state_record import decode_archived
from sharemesh.domain.errors import coordinator_moved
from sharemesh.domain.share_group.missing_shards import incomplete_words
from sharemesh.v1 import admin_pb2, common_pb2, group_coordinator_pb2
from sharemesh.v1.common_pb2 import RecordEvent as RecordEventMessage
from sharemesh.v1.share_leader_pb2 import ExplainResponse

Problem = SharemeshError | None
VALID_STATES = ("Empty", "Stable", "Dead")
_G = group_coordinator_pb2


def group_states(states: Iterable[str]) -> list[str]:
    """Return state names in their proper spelling (spec ADM-2).

    Raises:
        IllegalArgumentError: One is not Empty, Stable or Dead.
    """
    proper = {state.lower(): state for state in VALID_STATES}
    given = [state.strip() for state in states]
    if any(state.lower() not in proper for state in given):
        raise IllegalArgumentError(
            f"Invalid state list '{','.join(given)}'. Valid states are: {', '.join(VALID_STATES)}"
        )
    return [proper[state.lower()] for state in given]


def missing_in_list(answers: Sequence[_G.ListGroupsResponse]) -> Problem:
    """Return which shards no answer holds the groups of; None: all are there (spec ADM-4)."""
    if all(each.shard_count for each in answers):
        there = {shard for each in answers for shard in each.shards}
        count = max(each.shard_count for each in answers)
        gone = [f"group-{shard}" for shard in range(count) if shard not in there]
        return CoordinatorNotAvailableError(incomplete_words(gone)) if gone else None
    # An older process does not say of which shards its groups are.
    return next(
        (
            error_for(each.error_code, each.error_message)
            for each in answers
            if coordinator_moved(each.error_code)
        ),
        None,
    )


async def caught(one: Callable[[Any], Any], about: Any) -> Any:  # noqa: ANN401
    """Return the result, or the error of this one thing; no answer at all is raised."""
    try:
        return await one(about)
    except ServiceError as error:
        return error


def raise_problem(problem: Problem) -> None:
    """Raise an error if there is one."""
    if problem is not None:
        raise problem


def check(code: int, message: str, about: str) -> None:
    """Raise the exception of a code other than 0."""
    raise_problem(optional_error(code, message, about=about))


def topic_of(found: admin_pb2.DescribedTopic) -> TopicDescription:
    """Return a topic as it was described."""
    return TopicDescription(
        found.name,
        found.topic_id.hex(),
        tuple(
            PartitionDescription(
                each.partition, each.leader_id, each.leader_epoch, tuple(each.standbys)
            )
            for each in found.partitions
        ),
        dict(found.configs),
    )


def node_of(found: admin_pb2.ClusterMember) -> MemberNode:
    """Return a process as it was described."""
    node = found.node
    return MemberNode(
        node.node_id,
        f"{node.host}:{node.port}",
        node.role,
        node.rack,
        found.version,
        found.draining,
        found.led_partitions,
        found.pid,
    )


def cluster_of(found: admin_pb2.DescribeClusterResponse) -> ClusterDescription:
    """Return the cluster as it was described."""
    return ClusterDescription(
        found.cluster_id,
        found.controller_id,
        tuple(node_of(each) for each in found.members),
        tuple(
            ShardDescription(each.election, each.leader_id, each.epoch, each.reason)
            for each in found.shards
        ),
        tuple(
            (TopicPartition(each.topic_name, each.partition), each.reason)
            for each in found.unassigned
        ),
        tuple(
            PartitionMove(
                TopicPartition(each.topic_name, each.partition),
                each.from_node_id,
                each.to_node_id,
                each.leader_epoch,
            )
            for each in found.moves
        ),
        tuple(
            PartitionPlace(
                TopicPartition(each.topic_name, each.partition.partition),
                each.partition.leader_id,
                each.partition.leader_epoch,
                tuple(each.partition.standbys),
            )
            for each in found.partitions
        ),
        tuple(found.storage_problems),
    )


def group_of(found: _G.DescribedShareGroup) -> GroupDescription:
    """Return a group as it was described."""
    return GroupDescription(
        found.group_id,
        found.group_state,
        found.group_epoch,
        found.assignment_epoch,
        found.assignor_name,
        found.coordinator_id,
        tuple(
            MemberDescription(
                each.member_id,
                each.client_id,
                each.client_host,
                each.rack_id,
                each.member_epoch,
                tuple(each.subscribed_topic_names),
                {
                    topic.topic_name: tuple(topic.partitions)
                    for topic in each.assignment.topic_partitions
                },
            )
            for each in found.members
        ),
        found.paused,
    )


def configs_of(entries: Iterable[common_pb2.ConfigEntry]) -> list[ConfigValue]:
    """Return configurations as they were described."""
    return [
        ConfigValue(
            each.name,
            each.value if each.HasField("value") else None,
            each.source,
            each.documentation,
        )
        for each in entries
    ]


def config_resource(topic: str | None) -> tuple[admin_pb2.ConfigResource, str]:
    """Return the resource of a topic, or of the cluster, and its name for messages."""
    if topic is None:
        kind = admin_pb2.CONFIG_RESOURCE_TYPE_CLUSTER
        return admin_pb2.ConfigResource(type=kind, name=""), "cluster"
    kind = admin_pb2.CONFIG_RESOURCE_TYPE_TOPIC
    return admin_pb2.ConfigResource(type=kind, name=topic), f"topic {topic}"


def offset_partitions(
    topics: Iterable[_G.OffsetTopicResult],
) -> Iterable[tuple[_G.OffsetTopicResult, _G.OffsetPartition]]:
    """Return each partition with its topic."""
    return [(topic, each) for topic in topics for each in topic.partitions]


def group_offset_of(found: group_coordinator_pb2.OffsetPartition) -> GroupOffset:
    """Return a group's offsets in a partition, with archived counts if they are known."""
    if not found.HasField("archived"):
        return GroupOffset(found.start_offset, found.leader_epoch, found.lag)
    archived = decode_archived(found.archived)
    counts = {cause.name: count for cause, count in archived.counts}
    return GroupOffset(found.start_offset, found.leader_epoch, found.lag, counts, archived.since_ms)


def explanation_of(found: ExplainResponse) -> Explanation:
    """Return what a leader explained; numbers that it does not know are None."""
    facts: dict[str, Any] = {}
    for name in Explanation.__dataclass_fields__:
        is_known = not found.DESCRIPTOR.fields_by_name[name].has_presence or found.HasField(name)
        facts[name] = getattr(found, name) if is_known else None
    facts |= {"trace_id": found.trace_id.hex(), "span_id": found.span_id.hex()}
    facts["events"] = tuple(map(_event_of, found.events))
    return Explanation(**facts)


def _event_of(found: RecordEventMessage) -> RecordEvent:
    return RecordEvent(
        timestamp_ms=found.timestamp_ms,
        cause=found.cause,
        member_id=found.member_id,
        delivery_state=found.delivery_state,
        delivery_count=found.delivery_count if found.delivery_state else None,
        start_offset=found.start_offset if found.start_offset >= 0 else None,
        log_offset=found.log_offset,
        trace_id=found.trace_id.hex(),
        span_id=found.span_id.hex(),
        not_before_ms=found.not_before_ms or None,
        acquired_at_ms=found.acquired_at_ms or None,
    )
