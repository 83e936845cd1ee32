"""Fixtures of the suite on a real Kubernetes: one environment for all, clusters for some tests."""

import os
import secrets
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.e2e import environment, objects
from tests.e2e.environment import Environment, Images, Timings
from tests.e2e.kube import Document, Kube

WORKER = os.environ.get("SHAREMESH_E2E_WORKER", "")
# Two workers at the same time, each with its own environment: tests wait more than they compute.
# What others build on comes first; what takes the environment itself apart comes last.
WORKERS = (
    (
        "test_quick_start",
        "test_groups",
        "test_permissions",
        "test_probes",
        "test_operators",
        "test_kills",
        "test_evictions",
        "test_scaling",
        "test_storage",
        "test_outside",
        "test_api_contract",
        "test_storage_rules",
        "test_listener_rules",
    ),
    (
        "test_operations",
        "test_rolling_updates",
        "test_tenants",
        "test_spark",
        "test_kafka",
        "test_deletion",
        "test_backup",
        "test_releases",
    ),
)
REPORTS = Path(__file__).parents[2] / "build" / "e2e"


def place(item: pytest.Item) -> tuple[int, int]:
    """Return which worker runs a test, and when."""
    name = item.path.stem
    return next((n, files.index(name)) for n, files in enumerate(WORKERS) if name in files)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    mine = [item for item in items if item.path.parent == here]
    for item in mine:
        item.add_marker(pytest.mark.cluster)
        item.add_marker(pytest.mark.timeout(420))
    if not mine or any(item.path.stem not in chain(*WORKERS) for item in items):
        return  # collected along with the other suites, of which none of these is run
    items.sort(key=place)
    if WORKER:
        others = [item for item in items if place(item)[0] != int(WORKER)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


@pytest.fixture(scope="session")
def timings() -> Iterator[Timings]:
    found = Timings()
    yield found
    found.write(REPORTS / f"timings-{WORKER}.json")


def make_stage(prefix: str, timings: Timings) -> Environment:
    assert os.environ.get("KUBECONFIG"), "KUBECONFIG is not set: run `make e2e`, which sets it"
    namespace = f"{prefix}-{secrets.token_hex(3)}"
    Kube("default")("create", "namespace", namespace)
    root = os.environ.get("SHAREMESH_E2E_HOST_PATH", "/var/lib/sharemesh-e2e")
    return Environment(Kube(namespace), Images(), environment.first_node(), root, timings)


@pytest.fixture(scope="session")
def mesh(timings: Timings) -> Iterator[Environment]:
    """The operator, an etcd and the ShareCluster ``main`` of the quick start, all ready."""
    made = make_stage("e2e", timings)
    try:
        environment.install(made)
        yield made
    finally:
        environment.remove(made)


@pytest.fixture(autouse=True)
def no_load_outlives_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete load pods of a test that failed before it ended them."""
    yield
    if "mesh" in request.fixturenames:
        made: Environment = request.getfixturevalue("mesh")
        left = made.kube.names("pods", "app=sharemesh-e2e")
        if left:
            made.kube.delete("pods", *left)


@pytest.fixture
def small(mesh: Environment) -> Iterator[Callable[..., str]]:
    """Make ShareClusters of one pod a role; they are gone when the test is over."""
    names: list[str] = []

    def make(name: str, *, storage: Document | None = None, ready: bool = True, **spec) -> str:
        names.append(name)
        mesh.make_directories(name)
        mesh.kube.apply(
            objects.small_cluster(name, mesh.etcd, storage or mesh.storage(name), **spec)
        )
        if ready:
            mesh.ready(name)
        return name

    yield make
    for kind in ("shareusers", "sharegroups", "sharetopics", "shareclusters"):
        for found in mesh.kube.objects(kind):
            owner = found["spec"].get("clusterRef", {}).get("name", found["metadata"]["name"])
            if owner in names:
                mesh.kube.delete(kind, found["metadata"]["name"], wait=True)
