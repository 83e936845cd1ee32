"""Steps of the wall clock do no harm: leases, elections and claims know monotonic time only."""

import ast
from pathlib import Path

import pytest

import sharemesh.cluster
from sharemesh.cluster.store.topics import create_topic
from sharemesh.ports.cluster import Role
from tests.clocks import ManualClock
from tests.cluster.mesh import SHARDS, Mesh

SL, C, GC = Role.SHARE_LEADER, Role.CONTROLLER, Role.GROUP_COORDINATOR
DAY_MS = 86_400_000
SERVICES = Path(sharemesh.cluster.__file__).parents[1]
WITHOUT_WALL_TIME = (
    "domain",
    "cluster",
    "backends/etcd",
    "persister",
    "client/consumer/share_sessions.py",
)
WALL_TIME = {"wall_ms", "wall_ns", "time_ns", "utcnow", "today"}


class SteppingClock(ManualClock):
    """Somebody sets the wall clock again and again, by up to a day, to both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.step_ms = 0

    def wall_ms(self) -> int:
        self.step_ms = -self.step_ms + (DAY_MS if self.step_ms <= 0 else 0)
        return super().wall_ms() + self.step_ms


@pytest.fixture
async def mesh():
    mesh = Mesh(clock=SteppingClock())
    await mesh.begin()
    yield mesh
    await mesh.close()


async def test_nobody_loses_anything_and_a_lost_node_is_replaced_in_time(mesh):
    leaders = [await mesh.add(name, SL) for name in ("a", "b", "c")]
    coordinator = await mesh.add("g", GC)
    await mesh.add("ctl", C)
    await create_topic(mesh.parent, leaders[0].view, "orders", 12, {}, rng=mesh.rng)
    await mesh.settle(3_100)
    before = [dict(each.partitions.serving) for each in leaders]
    for _ in range(30):
        await mesh.settle(1_000)
        assert mesh.clock.wall_ms()
    assert [each.partitions.serving for each in leaders] == before
    assert set(coordinator.elections.led.values()) == {1}
    assert len(coordinator.elections.led) == SHARDS
    leaders[0].coordination.cut_off = True
    for _ in range(30):
        await mesh.settle(500)
        assert mesh.clock.wall_ms()
        assert sum(len(each.partitions.serving) for each in leaders) <= 12, "two leaders"
    assert sum(len(each.partitions.serving) for each in leaders[1:]) == 12
    leaders[0].coordination.cut_off = False


def test_what_decides_about_leases_leadership_and_locks_never_reads_the_wall_clock():
    files = [
        file
        for room in WITHOUT_WALL_TIME
        for file in ([SERVICES / room] if room.endswith(".py") else (SERVICES / room).rglob("*.py"))
    ]
    assert len(files) > 60
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in WALL_TIME, f"{file}:{node.lineno}"
            if isinstance(node, ast.Import):
                names = {each.name for each in node.names}
                assert not names & {"time", "datetime"}, f"{file}:{node.lineno}"
