"""Each test of the network port runs once for each filling, in a loop that it can run in."""

from tests.contract.network.sides import FACTORIES


def pytest_asyncio_loop_factories(config, item):
    return FACTORIES
