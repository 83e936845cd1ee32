"""DescribeConfigs, IncrementalAlterConfigs and ListConfigResources, resource by resource.

Settings of topics and of the cluster are any process's, those of groups their coordinator's.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS
from sharemesh.domain.group_config.evaluate import MAX_ENTRIES
from sharemesh.domain.group_config.group_definitions import GROUP_CONFIGS
from sharemesh.domain.topics import TOPIC_CONFIGS, check_topic_name
from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds
from sharemesh.kafka_listener.nodes import KafkaNodes
from sharemesh.kafka_listener.translation.config_entries import config_entry
from sharemesh.v1 import admin_pb2 as pb
from sharemesh.v1.common_pb2 import ConfigEntry

TOPIC, BROKER, GROUP = 2, 4, 32
OF_CLUSTER = pb.ConfigResource(type=pb.CONFIG_RESOURCE_TYPE_CLUSTER)
_CLIENT_METRICS = 16
_SET, _DELETE = 0, 1
_DEFINITIONS = {TOPIC: TOPIC_CONFIGS, BROKER: CLUSTER_CONFIGS, GROUP: GROUP_CONFIGS}
_WITH_TYPES = 1

Changes = Mapping[str, str | None]
"""New values by name; None: back to the default."""


class Refused(NamedTuple):
    """Why one resource is not answered."""

    code: int
    message: str


def unanswerable(resource: KafkaMessage, nodes: KafkaNodes, *, alters: bool) -> Refused | None:
    """Return why nothing can be asked about a resource, if that is known before."""
    kind, name = resource.resource_type, resource.resource_name
    if kind not in _DEFINITIONS:
        return Refused(
            ErrorCode.INVALID_REQUEST,
            f"resource type {kind}: topics (2), the cluster (4) and groups (32) have settings",
        )
    if kind == GROUP and not name:
        return Refused(ErrorCode.INVALID_REQUEST, "group id is empty; name a group")
    if kind == TOPIC:
        return _not_a_topic(name, alters=alters)
    if kind != BROKER or not name:
        return None
    if alters:
        return Refused(
            ErrorCode.INVALID_REQUEST,
            "no process has settings of its own here: change those of all (the default entity)",
        )
    if name not in {str(each.number) for each in nodes.all}:
        return Refused(ErrorCode.INVALID_REQUEST, f"there is no broker {name[:100]!r}")
    return None


def _not_a_topic(name: str, *, alters: bool) -> Refused | None:
    if alters and not name:
        return Refused(ErrorCode.INVALID_REQUEST, "the name of the topic is empty; name one")
    try:
        check_topic_name(name)
    except RefusedError as error:
        return Refused(error.error, error.message)
    return None


def changes_of(resource: KafkaMessage) -> Changes | Refused:
    """Return what is to change of one resource, or why it cannot be."""
    if len(resource.configs) > MAX_ENTRIES:
        return Refused(
            ErrorCode.INVALID_REQUEST,
            f"{len(resource.configs)} settings of one resource: change at most {MAX_ENTRIES}",
        )
    changes: dict[str, str | None] = {}
    for each in resource.configs:
        if each.config_operation not in (_SET, _DELETE):
            return Refused(
                ErrorCode.INVALID_CONFIG,
                f"{each.name[:100]}: settings are set or deleted; none is a list to append to",
            )
        if each.name in changes:
            return Refused(ErrorCode.INVALID_REQUEST, f"{each.name[:100]} is named twice")
        if each.config_operation == _SET and each.value is None:
            return Refused(ErrorCode.INVALID_REQUEST, f"{each.name[:100]} has no value")
        changes[each.name] = each.value if each.config_operation == _SET else None
    return changes


def our_resource(resource: KafkaMessage) -> pb.ConfigResource:
    """Return a topic or the cluster as our requests name it."""
    if resource.resource_type == TOPIC:
        return pb.ConfigResource(type=pb.CONFIG_RESOURCE_TYPE_TOPIC, name=resource.resource_name)
    return OF_CLUSTER


def described(
    asked: KafkaMessage, resource: KafkaMessage, found: Sequence[ConfigEntry] | Refused
) -> dict[str, object]:
    """Return one resource of the answer: the settings that are wanted, or why there are none."""
    refused = found if isinstance(found, Refused) else Refused(ErrorCode.NONE, "")
    wanted = frozenset(resource.configuration_keys or ())
    definitions = _DEFINITIONS.get(resource.resource_type, {})
    entries = [] if isinstance(found, Refused) else found
    has_words = getattr(asked, "include_documentation", False)
    configs = [
        config_entry(each, definitions, described=has_words)
        for each in entries
        if not wanted or each.name in wanted
    ]
    if not getattr(asked, "include_synonyms", False):
        configs = [{**each, "synonyms": ()} for each in configs]
    return {
        "error_code": error_code(refused.code),
        "error_message": refused.message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": configs,
    }


def altered(resource: KafkaMessage, result: Refused | None) -> dict[str, object]:
    """Return what became of one resource."""
    refused = result or Refused(ErrorCode.NONE, "")
    return {
        "error_code": error_code(refused.code),
        "error_message": refused.message or None,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def describe_answer(results: Sequence[dict[str, object]]) -> Content:
    """Return the whole answer to DescribeConfigs."""
    return {"throttle_time": milliseconds(0), "results": results}


def alter_answer(responses: Sequence[dict[str, object]]) -> Content:
    """Return the whole answer to IncrementalAlterConfigs."""
    return {"throttle_time": milliseconds(0), "responses": responses}


def wanted_types(version: int, asked: KafkaMessage) -> tuple[int, ...]:
    """Return of which types resources are to be listed, each once; before version 1 of metrics.

    A type costs the client one byte and the answer every resource of that type.
    """
    if version < _WITH_TYPES:
        return (_CLIENT_METRICS,)
    named = dict.fromkeys(asked.resource_types)
    return tuple(named) or (TOPIC, BROKER, _CLIENT_METRICS, GROUP)


def list_answer(code: int, resources: Iterable[tuple[int, str]]) -> Content:
    """Return the whole answer to ListConfigResources."""
    return {
        "throttle_time": milliseconds(0),
        "error_code": error_code(code),
        "config_resources": [
            {"resource_name": name, "resource_type": kind} for kind, name in resources
        ],
    }
