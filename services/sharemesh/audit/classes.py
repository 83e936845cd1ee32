"""The audit class of each RPC: what of a call is recorded, and which fields of it (AUD-1).

Only the fields that are read here ever come into the log: ids, names, offsets, and settings, none
of which is a secret. How to add an RPC: one line in ``AUDIT_CLASSES``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sharemesh import methods as m
from sharemesh.audit.events import Resource, resource
from sharemesh.methods import Method, Request, Response
from sharemesh.v1 import admin_pb2, group_coordinator_pb2, record_log_pb2, share_leader_pb2

TopicName = Callable[[bytes], str]
"""Returns the name of a topic by its id; the id in hexadecimal digits if there is none."""

Codes = Iterable[int]
_SHOWN_MAX = 20
"""Settings or partitions that the words about one resource name."""


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """Only refusals are recorded."""

    reason: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is recorded of each call.

    Attributes:
        entries: What the request is about, in its order.
        codes: Kafka's error of each entry, in the same order; what is missing is 0.
        is_look: Nothing is changed: it shows what only operators look at.
    """

    entries: Callable[[Any, TopicName], Iterable[Resource]]
    codes: Callable[[Any], Codes]
    is_look: bool = False


AuditClass = Unrecorded | Recorded

_TRAFFIC = Unrecorded("clients' traffic")
_DESCRIPTION = Unrecorded("a description without records")
_INTERNAL = Unrecorded("traffic of the cluster's own processes")


def _change(
    method: Method[Request, Response],
    entries: Callable[[Request, TopicName], Iterable[Resource]],
    codes: Callable[[Response], Codes],
) -> tuple[str, AuditClass]:
    return method.name, Recorded(entries, codes)


def _of_results(response: Any) -> Codes:  # noqa: ANN401 - any response with such a field
    return (each.error_code for each in response.results)


def _of_topics(response: Any) -> Codes:  # noqa: ANN401
    return (each.error_code for each in response.topics)


def _of_partitions(response: Any) -> Codes:  # noqa: ANN401
    return (each.error_code for each in response.partitions)


def _of_whole(response: Any) -> Codes:  # noqa: ANN401
    return (response.error_code,)


def _of_offsets(
    response: group_coordinator_pb2.AlterShareGroupOffsetsResponse
    | group_coordinator_pb2.DeleteShareGroupOffsetsResponse,
) -> Codes:
    """Return the error of the group for all topics, else each topic's first error."""
    if response.error_code:
        while True:
            yield response.error_code
    for topic in response.topics:
        errors = (each.error_code for each in topic.partitions if each.error_code)
        yield topic.error_code or next(errors, 0)


def _some(words: Iterable[str], count: int) -> str:
    """Return the first words, and how many more there are."""
    more = f" and {count - _SHOWN_MAX} more" if count > _SHOWN_MAX else ""
    return ", ".join(islice(words, _SHOWN_MAX)) + more


def _settings(
    changes: Iterable[admin_pb2.AlterConfig] | Iterable[group_coordinator_pb2.AlterGroupConfig],
    count: int,
) -> str:
    return _some(
        (
            f"{each.name}={each.value}" if each.HasField("value") else f"{each.name} to its default"
            for each in changes
        ),
        count,
    )


def _created_topics(request: admin_pb2.CreateTopicsRequest, _: TopicName) -> Iterator[Resource]:
    for topic in request.topics:
        pairs = [f"{name}={topic.configs[name]}" for name in sorted(topic.configs)]
        words = _some([f"{topic.partitions} partitions", *pairs], len(pairs) + 1)
        yield resource("topic", topic.name, words)


def _deleted_topics(request: admin_pb2.DeleteTopicsRequest, _: TopicName) -> Iterator[Resource]:
    return (resource("topic", name) for name in request.names)


def _grown_topics(request: admin_pb2.CreatePartitionsRequest, _: TopicName) -> Iterator[Resource]:
    return (resource("topic", each.name, f"{each.total} partitions") for each in request.topics)


def _configs(request: admin_pb2.AlterConfigsRequest, _: TopicName) -> Iterator[Resource]:
    is_cluster = request.resource.type == admin_pb2.CONFIG_RESOURCE_TYPE_CLUSTER
    words = _settings(request.configs, len(request.configs))
    yield resource(
        "cluster" if is_cluster else "topic", "" if is_cluster else request.resource.name, words
    )


def _group_configs(
    request: group_coordinator_pb2.AlterGroupConfigsRequest, _: TopicName
) -> Iterator[Resource]:
    yield resource("group", request.group_id, _settings(request.configs, len(request.configs)))


def _deleted_groups(
    request: group_coordinator_pb2.DeleteGroupsRequest, _: TopicName
) -> Iterator[Resource]:
    return (resource("group", each) for each in request.group_ids)


def _altered_offsets(
    request: group_coordinator_pb2.AlterShareGroupOffsetsRequest, _: TopicName
) -> Iterator[Resource]:
    for topic in request.topics:
        starts = (f"{each.partition}: {each.start_offset}" for each in topic.partitions)
        words = f"start offsets in {topic.topic_name}: {_some(starts, len(topic.partitions))}"
        yield resource("group", request.group_id, words)


def _deleted_offsets(
    request: group_coordinator_pb2.DeleteShareGroupOffsetsRequest, _: TopicName
) -> Iterator[Resource]:
    for name in request.topic_names:
        yield resource("group", request.group_id, f"offsets in {name} deleted")


def _deleted_records(
    request: record_log_pb2.DeleteRecordsRequest, topic_name: TopicName
) -> Iterator[Resource]:
    for each in request.partitions:
        words = f"partition {each.partition}: records below {each.offset} deleted"
        yield resource("topic", topic_name(each.topic_id), words)


def _ended_transactions(
    request: record_log_pb2.WriteTxnMarkersRequest, topic_name: TopicName
) -> Iterator[Resource]:
    for each in request.markers:
        end = "committed" if each.commit else "aborted"
        words = f"partition {each.partition}: transaction of producer {each.producer_id} {end}"
        yield resource("topic", topic_name(each.topic_id), words)


def _rule(rule: admin_pb2.AclRule | admin_pb2.AclFilter, principal: str, name: str) -> Resource:
    """Return a rule or a filter by the words of its fields; the name goes last: it may be long."""
    permission = _word(admin_pb2.AclPermission, "ACL_PERMISSION_", rule.permission)
    operation = _word(admin_pb2.AclOperation, "ACL_OPERATION_", rule.operation)
    pattern = _word(admin_pb2.AclPatternType, "ACL_PATTERN_TYPE_", rule.pattern_type)
    kind = _word(admin_pb2.AclResourceType, "ACL_RESOURCE_TYPE_", rule.resource_type)
    return resource("acl", principal, f"{permission} {operation} on {pattern} {kind} {name}")


def _word(enum: Any, prefix: str, number: int) -> str:  # noqa: ANN401 - protobuf's wrapper
    names = dict(zip(enum.values(), enum.keys(), strict=True))
    word: str = names.get(number, str(number)).removeprefix(prefix)
    return "ANY" if word == "UNSPECIFIED" else word


def _created_rules(request: admin_pb2.CreateAclsRequest, _: TopicName) -> Iterator[Resource]:
    return (_rule(each, each.principal, each.resource_name) for each in request.rules)


def _deleted_rules(request: admin_pb2.DeleteAclsRequest, _: TopicName) -> Iterator[Resource]:
    for each in request.filters:
        principal = each.principal if each.HasField("principal") else "ANY"
        name = each.resource_name if each.HasField("resource_name") else "ANY"
        yield _rule(each, principal, name)


def _altered_quotas(
    request: admin_pb2.AlterClientQuotasRequest, _: TopicName
) -> Iterator[Resource]:
    for entry in request.entries:
        entity = ", ".join(
            f"{each.entity_type}:{each.entity_name}"
            if each.HasField("entity_name")
            else f"default of {each.entity_type}"
            for each in islice(entry.entity, _SHOWN_MAX)
        )
        changes = (
            f"{each.key} removed" if each.remove else f"{each.key}={each.value:g}"
            for each in entry.ops
        )
        yield resource("quota", entity, _some(changes, len(entry.ops)))


def _drained(request: admin_pb2.DrainNodeRequest, _: TopicName) -> Iterator[Resource]:
    yield resource("node", request.node_id, "drain")


def _explained(request: share_leader_pb2.ExplainRequest, _: TopicName) -> Iterator[Resource]:
    words = f"partition {request.partition}: record {request.offset} explained"
    yield resource("topic", request.topic_name, f"{words} for group {request.group_id}")


AUDIT_CLASSES: dict[str, AuditClass] = {
    m.SHARE_GROUP_HEARTBEAT.name: _TRAFFIC,
    m.SHARE_GROUP_HEARTBEAT_STREAM.name: _TRAFFIC,
    m.SHARE_GROUP_DESCRIBE.name: _DESCRIPTION,
    m.LIST_GROUPS.name: _DESCRIPTION,
    m.DESCRIBE_SHARE_GROUP_OFFSETS.name: _DESCRIPTION,
    m.DESCRIBE_GROUP_CONFIGS.name: _DESCRIPTION,
    m.SHARE_FETCH.name: _TRAFFIC,
    m.SHARE_ACKNOWLEDGE.name: _TRAFFIC,
    m.CONSUME.name: _TRAFFIC,
    m.HOLD_SESSION.name: _TRAFFIC,
    m.EXPLAIN.name: Recorded(_explained, _of_whole, is_look=True),
    m.INITIALIZE_SHARE_GROUP_STATE.name: _INTERNAL,
    m.READ_SHARE_GROUP_STATE.name: _INTERNAL,
    m.WRITE_SHARE_GROUP_STATE.name: _INTERNAL,
    m.DELETE_SHARE_GROUP_STATE.name: _INTERNAL,
    m.READ_SHARE_GROUP_STATE_SUMMARY.name: _INTERNAL,
    m.READ_SHARE_RECORD_HISTORY.name: _INTERNAL,
    m.COMMIT_GENERATION.name: _INTERNAL,
    m.PRODUCE.name: _TRAFFIC,
    m.INIT_PRODUCER_ID.name: _TRAFFIC,
    m.LIST_OFFSETS.name: _DESCRIPTION,
    m.DESCRIBE_PRODUCERS.name: _DESCRIPTION,
    m.API_VERSIONS.name: _DESCRIPTION,
    m.METADATA.name: _DESCRIPTION,
    m.FIND_COORDINATOR.name: _DESCRIPTION,
    m.DESCRIBE_TOPICS.name: _DESCRIPTION,
    m.DESCRIBE_CONFIGS.name: _DESCRIPTION,
    m.DESCRIBE_CLUSTER.name: _DESCRIPTION,
    m.DESCRIBE_ACLS.name: _DESCRIPTION,
    m.DESCRIBE_CLIENT_QUOTAS.name: _DESCRIPTION,
    **dict(
        (
            _change(m.DELETE_GROUPS, _deleted_groups, _of_results),
            _change(m.ALTER_SHARE_GROUP_OFFSETS, _altered_offsets, _of_offsets),
            _change(m.DELETE_SHARE_GROUP_OFFSETS, _deleted_offsets, _of_offsets),
            _change(m.ALTER_GROUP_CONFIGS, _group_configs, _of_whole),
            _change(m.DELETE_RECORDS, _deleted_records, _of_partitions),
            _change(m.WRITE_TXN_MARKERS, _ended_transactions, _of_results),
            _change(m.CREATE_TOPICS, _created_topics, _of_topics),
            _change(m.DELETE_TOPICS, _deleted_topics, _of_topics),
            _change(m.CREATE_PARTITIONS, _grown_topics, _of_topics),
            _change(m.ALTER_CONFIGS, _configs, _of_whole),
            _change(m.CREATE_ACLS, _created_rules, _of_results),
            _change(m.DELETE_ACLS, _deleted_rules, _of_results),
            _change(m.ALTER_CLIENT_QUOTAS, _altered_quotas, _of_results),
            _change(m.DRAIN_NODE, _drained, _of_whole),
        )
    ),
}
"""By name of the method."""
