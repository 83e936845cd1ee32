"""FindCoordinator: of groups and of share partitions; transactions have none here."""

from collections.abc import Sequence

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds
from sharemesh.kafka_listener.failures import heartbeat_code
from sharemesh.kafka_listener.nodes import NOBODY, KafkaNodes
from sharemesh.v1 import admin_pb2 as pb

_GROUP, _SHARE = 0, 2
_FIRST_WITH_SEVERAL = 4
NO_SUCH_COORDINATOR = (
    "there is no transaction coordinator: use an idempotent producer without transactional.id"
)


def keys_of(version: int, asked: KafkaMessage) -> Sequence[str]:
    """Return what coordinators are asked for."""
    return asked.coordinator_keys if version >= _FIRST_WITH_SEVERAL else (asked.key,)


def to_request(version: int, asked: KafkaMessage) -> pb.FindCoordinatorRequest | None:
    """Return our request; None: of a kind that has no coordinator here."""
    kind = getattr(asked, "key_type", _GROUP)
    if kind not in (_GROUP, _SHARE):
        return None
    key_type = pb.COORDINATOR_KEY_TYPE_GROUP if kind == _GROUP else pb.COORDINATOR_KEY_TYPE_SHARE
    return pb.FindCoordinatorRequest(key_type=key_type, keys=keys_of(version, asked))


def to_answer(response: pb.FindCoordinatorResponse, nodes: KafkaNodes) -> Content:
    """Return Kafka's answer; a coordinator that its clients cannot reach is not available."""
    return _answer([_coordinator(each, nodes) for each in response.coordinators])


def refused(version: int, asked: KafkaMessage, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    told = heartbeat_code(code)
    return _answer([_failed(each, told, message) for each in keys_of(version, asked)])


def _answer(coordinators: list[dict[str, object]]) -> Content:
    single = coordinators[0] if coordinators else _failed("", ErrorCode.INVALID_REQUEST, "")
    return {**single, "throttle_time": milliseconds(0), "coordinators": coordinators}


def _coordinator(found: pb.FoundCoordinator, nodes: KafkaNodes) -> dict[str, object]:
    if found.error_code:
        return _failed(found.key, heartbeat_code(found.error_code), found.error_message)
    node = nodes.named(found.node.node_id)
    if node is None:
        return _failed(
            found.key,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"{found.node.node_id} has no listener for Kafka's clients: set kafka_listener_port",
        )
    return _failed(found.key, ErrorCode.NONE, "") | {
        "node_id": node.number,
        "host": node.host,
        "port": node.port,
    }


def _failed(key: str, code: int, message: str) -> dict[str, object]:
    return {
        "key": key,
        "node_id": NOBODY,
        "host": "",
        "port": NOBODY,
        "error_code": error_code(code),
        "error_message": message,
    }
