"""The mark that carries scenario ids; one cluster of real processes for the client's scenarios."""

import pytest

from tests.cli.local_up import local_up
from tests.conformance.client_world import SHORT_LOCKS, ClientWorld
from tests.conformance.scenario import LEFT_OUT, scenarios


@pytest.fixture(scope="session")
def client_cluster(tmp_path_factory):
    """A cluster that all client scenarios share; each has topics and groups of its own."""
    with local_up(tmp_path_factory.mktemp("q") / "data", *SHORT_LOCKS) as up:
        world = ClientWorld(up.bootstrap)
        yield world
        world.close()


@pytest.fixture
def world(client_cluster):
    """The shared cluster; what a test opened is closed after it."""
    yield client_cluster
    client_cluster.end_test()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse ids that the list does not know, and ids that are left out."""
    known = scenarios()
    for item in items:
        for mark in item.iter_markers("scenario"):
            for each in mark.args:
                if each not in known or each in LEFT_OUT:
                    raise pytest.UsageError(f"{item.nodeid}: {each} is unknown or left out")
