"""What an error code asks for stands in ``domain/errors``; differences are few and named."""

import ast
from pathlib import Path

import pytest

PRODUCT = Path(__file__).parents[2] / "services" / "sharemesh"
POLICY = "domain/errors.py"
DIFFERENCES = {
    "audit/listener.py": 2,  # what was not tried here; what may be stored
    "backends/kafka/record_logs/cluster_words.py": 1,  # what Kafka says of a batch itself
    "client/admin/router.py": 1,  # an administrator hears at once what consumers wait for
    "client/consumer/acknowledgement_sender.py": 1,  # the same leader may take it later
    "client/consumer/membership.py": 1,  # a heartbeat may always be sent again
    "client/metadata/metadata_cache.py": 1,  # look-ups that end without a coordinator
    "client/producer/engine.py": 2,  # written already; refused again whenever it is sent
    "group_coordinator/share_state_work.py": 1,  # answers after which state is gone
    "kafka_listener/failures.py": 3,  # what Kafka's clients know of heartbeats, reads and topics
    "persister/persister.py": 1,  # the way to the coordinator and its log
    "share_leader/requests/access.py": 1,  # rights
    "share_leader/partition/led_partitions.py": 1,  # KIP-951
    "share_leader/streaming/resting_partitions.py": 1,  # what leaves a session
    "share_leader/telemetry/partition_signals.py": 1,  # what one counter counts
}


def collections_of_codes(tree: ast.AST) -> int:
    """Return how many literals of a module hold two error codes or more."""
    found = 0
    for node in ast.walk(tree):
        match node:
            case ast.Set(elts=held) | ast.Tuple(elts=held) | ast.List(elts=held):
                pass
            case ast.Dict(keys=held):
                pass
            case _:
                continue
        named = [each for each in held if each and ast.unparse(each).startswith("ErrorCode.")]
        found += len(named) > 1
    return found


def test_no_module_keeps_an_error_policy_of_its_own():
    counts = {
        path.relative_to(PRODUCT).as_posix(): collections_of_codes(
            ast.parse(path.read_text(encoding="utf-8"))
        )
        for path in sorted(PRODUCT.rglob("*.py"))
    }
    assert counts.pop(POLICY) == 2  # PER-8, PER-9
    assert {name: count for name, count in counts.items() if count} == DIFFERENCES


@pytest.mark.parametrize(
    "text",
    [
        "frozenset({ErrorCode.NONE, ErrorCode.NOT_COORDINATOR})",
        "code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)",
        "{ErrorCode.NONE: 1, ErrorCode.NOT_COORDINATOR: 2}",
    ],
)
def test_a_collection_of_codes_is_found(text):
    assert collections_of_codes(ast.parse(text)) == 1
