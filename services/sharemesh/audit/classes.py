"""The audit class of each RPC: what of a call is recorded, and which fields of it (AUD-1).

Only the fields that are read here ever come into the log: ids, names, offsets, and settings, none
of which is a secret. How to add an RPC: one line in ``AUDIT_CLASSES``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, islice
from typing import Any, TypeVar

from sharemesh import methods as m
from sharemesh.audit.events import Resource, resource
from sharemesh.methods import Method, Request, Response
from sharemesh.v1 import admin_pb2, group_coordinator_pb2, record_log_pb2, share_leader_pb2

TopicName = Callable[[bytes], str]
"""Returns the name of a topic by its id; the id in hexadecimal digits if there is none."""

Codes = Iterable[int]
Part = TypeVar("Part")
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
        parts: The entries of a request, in its order; named only as far as a line needs it.
        named: What an entry of a request is about.
        codes: Kafka's error of each entry, in the same order.
        is_look: Nothing is changed: it shows what only operators look at.
        topic: The topic that an entry needs a right on besides its resource; empty for none.
    """

    parts: Callable[[Any], Sequence[Any]]
    named: Callable[[Any, Any, TopicName], Resource]
    codes: Callable[[Any], Codes]
    is_look: bool = False
    topic: Callable[[Any], str] = lambda _: ""


AuditClass = Unrecorded | Recorded

_TRAFFIC = Unrecorded("clients' traffic")
_DESCRIPTION = Unrecorded("a description without records")
_INTERNAL = Unrecorded("traffic of the cluster's own processes")


def _change(
    method: Method[Request, Response],
    parts: Callable[[Request], Sequence[Part]],
    named: Callable[[Part, Request, TopicName], Resource],
    codes: Callable[[Response], Codes],
    topic: Callable[[Part], str] = lambda _: "",
) -> tuple[str, AuditClass]:
    return method.name, Recorded(parts, named, codes, topic=topic)


def _whole(request: Request) -> Sequence[Request]:
    return (request,)


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


def _created_topic(topic: admin_pb2.NewTopic, _request: object, _: TopicName) -> Resource:
    configs = topic.configs
    pairs = (f"{name}={configs[name]}" for name in nsmallest(_SHOWN_MAX, configs))
    words = _some(chain([f"{topic.partitions} partitions"], pairs), len(configs) + 1)
    return resource("topic", topic.name, words)


def _named(name: str, _request: object, _: TopicName) -> Resource:
    return resource("topic", name)


def _grown_topic(topic: admin_pb2.NewPartitions, _request: object, _: TopicName) -> Resource:
    return resource("topic", topic.name, f"{topic.total} partitions")


def _configs(request: admin_pb2.AlterConfigsRequest, _request: object, _: TopicName) -> Resource:
    is_cluster = request.resource.type == admin_pb2.CONFIG_RESOURCE_TYPE_CLUSTER
    words = _settings(request.configs, len(request.configs))
    return resource(
        "cluster" if is_cluster else "topic", "" if is_cluster else request.resource.name, words
    )


def _group_configs(
    request: group_coordinator_pb2.AlterGroupConfigsRequest, _request: object, _: TopicName
) -> Resource:
    return resource("group", request.group_id, _settings(request.configs, len(request.configs)))


def _deleted_group(group_id: str, _request: object, _: TopicName) -> Resource:
    return resource("group", group_id)


def _altered_offsets(
    topic: group_coordinator_pb2.AlterOffsetTopic,
    request: group_coordinator_pb2.AlterShareGroupOffsetsRequest,
    _: TopicName,
) -> Resource:
    starts = (f"{each.partition}: {each.start_offset}" for each in topic.partitions)
    words = f"start offsets in {topic.topic_name}: {_some(starts, len(topic.partitions))}"
    return resource("group", request.group_id, words)


def _deleted_offsets(
    topic_name: str, request: group_coordinator_pb2.DeleteShareGroupOffsetsRequest, _: TopicName
) -> Resource:
    return resource("group", request.group_id, f"offsets in {topic_name} deleted")


def _deleted_records(
    partition: record_log_pb2.DeleteRecordsPartition, _request: object, topic_name: TopicName
) -> Resource:
    words = f"partition {partition.partition}: records below {partition.offset} deleted"
    by_name = not partition.topic_id and partition.topic_name
    return resource("topic", by_name or topic_name(partition.topic_id), words)


def _ended_transaction(
    marker: record_log_pb2.TxnMarker, _request: object, topic_name: TopicName
) -> Resource:
    end = "committed" if marker.commit else "aborted"
    words = f"partition {marker.partition}: transaction of producer {marker.producer_id} {end}"
    return resource("topic", topic_name(marker.topic_id), words)


def _words(enum: Any, prefix: str) -> dict[int, str]:  # noqa: ANN401 - protobuf's wrapper
    words = {number: name.removeprefix(prefix) for name, number in enum.items()}
    return {number: "ANY" if it == "UNSPECIFIED" else it for number, it in words.items()}


_MECHANISMS = _words(admin_pb2.ScramMechanism, "SCRAM_MECHANISM_")
_PERMISSIONS = _words(admin_pb2.AclPermission, "ACL_PERMISSION_")
_OPERATIONS = _words(admin_pb2.AclOperation, "ACL_OPERATION_")
_PATTERNS = _words(admin_pb2.AclPatternType, "ACL_PATTERN_TYPE_")
_RESOURCE_TYPES = _words(admin_pb2.AclResourceType, "ACL_RESOURCE_TYPE_")


def _rule(rule: admin_pb2.AclRule | admin_pb2.AclFilter, principal: str, name: str) -> Resource:
    """Return a rule or a filter by the words of its fields; the name goes last: it may be long."""
    permission = _PERMISSIONS.get(rule.permission, rule.permission)
    operation = _OPERATIONS.get(rule.operation, rule.operation)
    pattern = _PATTERNS.get(rule.pattern_type, rule.pattern_type)
    kind = _RESOURCE_TYPES.get(rule.resource_type, rule.resource_type)
    return resource("acl", principal, f"{permission} {operation} on {pattern} {kind} {name}")


def _created_rule(rule: admin_pb2.AclRule, _request: object, _: TopicName) -> Resource:
    return _rule(rule, rule.principal, rule.resource_name)


def _deleted_rules(wanted: admin_pb2.AclFilter, _request: object, _: TopicName) -> Resource:
    principal = wanted.principal if wanted.HasField("principal") else "ANY"
    name = wanted.resource_name if wanted.HasField("resource_name") else "ANY"
    return _rule(wanted, principal, name)


def _altered_quotas(entry: admin_pb2.QuotaAlteration, _request: object, _: TopicName) -> Resource:
    entity = ", ".join(
        f"{each.entity_type}:{each.entity_name}"
        if each.HasField("entity_name")
        else f"default of {each.entity_type}"
        for each in islice(entry.entity, _SHOWN_MAX)
    )
    changes = (
        f"{each.key} removed" if each.remove else f"{each.key}={each.value:g}" for each in entry.ops
    )
    return resource("quota", entity, _some(changes, len(entry.ops)))


def _altered_user(altered: admin_pb2.UserAlteration, _request: object, _: TopicName) -> Resource:
    """Return a user and the mechanisms that change: what is kept of a password is no field here."""
    changes = chain(
        (f"{_mechanism(each.mechanism)} stored" for each in altered.upsertions),
        (f"{_mechanism(each)} removed" for each in altered.deletions),
    )
    count = len(altered.upsertions) + len(altered.deletions)
    return resource("user", f"User:{altered.name}", f"password: {_some(changes, count)}")


def _mechanism(number: int) -> str:
    return str(_MECHANISMS.get(number, number))


def _drained(request: admin_pb2.DrainNodeRequest, _request: object, _: TopicName) -> Resource:
    return resource("node", request.node_id, "drain")


def _accepted(request: admin_pb2.AcceptLossRequest, _request: object, _: TopicName) -> Resource:
    return resource("shard", request.shard, "lost records given up")


def _explained(
    request: share_leader_pb2.ExplainRequest, _request: object, _: TopicName
) -> Resource:
    words = f"partition {request.partition}: record {request.offset} explained"
    return resource("topic", request.topic_name, f"{words} for group {request.group_id}")


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
    m.EXPLAIN.name: Recorded(_whole, _explained, _of_whole, is_look=True),
    m.INITIALIZE_SHARE_GROUP_STATE.name: _INTERNAL,
    m.READ_SHARE_GROUP_STATE.name: _INTERNAL,
    m.WRITE_SHARE_GROUP_STATE.name: _INTERNAL,
    m.DELETE_SHARE_GROUP_STATE.name: _INTERNAL,
    m.READ_SHARE_GROUP_STATE_SUMMARY.name: _INTERNAL,
    m.READ_SHARE_RECORD_HISTORY.name: _INTERNAL,
    m.COMMIT_GENERATION.name: _INTERNAL,
    m.PRODUCE.name: _TRAFFIC,
    m.INIT_PRODUCER_ID.name: _TRAFFIC,
    m.FETCH.name: _TRAFFIC,
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
    m.DESCRIBE_USER_SCRAM_CREDENTIALS.name: _DESCRIPTION,
    **dict(
        (
            _change(m.DELETE_GROUPS, lambda it: it.group_ids, _deleted_group, _of_results),
            _change(
                m.ALTER_SHARE_GROUP_OFFSETS,
                lambda it: it.topics,
                _altered_offsets,
                _of_offsets,
                lambda it: it.topic_name,
            ),
            _change(
                m.DELETE_SHARE_GROUP_OFFSETS,
                lambda it: it.topic_names,
                _deleted_offsets,
                _of_offsets,
                lambda it: it,
            ),
            _change(m.ALTER_GROUP_CONFIGS, _whole, _group_configs, _of_whole),
            _change(m.DELETE_RECORDS, lambda it: it.partitions, _deleted_records, _of_partitions),
            _change(m.WRITE_TXN_MARKERS, lambda it: it.markers, _ended_transaction, _of_results),
            _change(m.CREATE_TOPICS, lambda it: it.topics, _created_topic, _of_topics),
            _change(
                m.DELETE_TOPICS,
                lambda it: list(dict.fromkeys(it.names)),
                _named,
                _of_topics,
            ),
            _change(m.ATTACH_TOPICS, lambda it: list(dict.fromkeys(it.names)), _named, _of_topics),
            _change(m.DETACH_TOPICS, lambda it: list(dict.fromkeys(it.names)), _named, _of_topics),
            _change(m.CREATE_PARTITIONS, lambda it: it.topics, _grown_topic, _of_topics),
            _change(m.ALTER_CONFIGS, _whole, _configs, _of_whole),
            _change(m.CREATE_ACLS, lambda it: it.rules, _created_rule, _of_results),
            _change(m.DELETE_ACLS, lambda it: it.filters, _deleted_rules, _of_results),
            _change(m.ALTER_CLIENT_QUOTAS, lambda it: it.entries, _altered_quotas, _of_results),
            _change(
                m.ALTER_USER_SCRAM_CREDENTIALS,
                lambda it: it.alterations,
                _altered_user,
                _of_results,
            ),
            _change(m.ACCEPT_LOSS, _whole, _accepted, _of_whole),
            _change(m.DRAIN_NODE, _whole, _drained, _of_whole),
        )
    ),
}
"""By name of the method."""
