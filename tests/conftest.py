"""What every test folder shares: Hypothesis draws the same examples in every run by default.

A gate must say the same of the same commit. ``SHAREMESH_EXPLORE=1`` draws new examples; what they
find is kept as an example or a test of its own.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Tests start processes by fork; gRPC's own handlers would run in the child before it is replaced,
# and have ended it there.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

# No deadline an example: a busy machine is not a fault.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("explore", print_blob=True, deadline=None)
settings.load_profile("explore" if os.environ.get("SHAREMESH_EXPLORE") else "gate")


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Yield one real Apache Kafka broker that all tests of a worker share; make topics of your own.

    Where none can be run the test is skipped, except in CI.
    """
    from tests.kafka.jars import KafkaMissingError
    from tests.kafka.real_broker import real_brokers

    running = real_brokers(tmp_path_factory.mktemp("kafka"))
    try:
        brokers = running.__enter__()
    except KafkaMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    yield brokers
    running.__exit__(None, None, None)


@pytest.fixture(scope="session")
def kfake_bootstrap() -> Iterator[str]:
    """Yield the addresses of three brokers of kfake that all tests of a worker share."""
    from tests.kafka.fake_broker import fake_brokers

    with fake_brokers(3) as addresses:
        yield addresses
