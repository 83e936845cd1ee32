"""A share leader in a network namespace of its own, cut off past its lease, and let back in."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from sharemesh.backends.local.clock import SystemClock
from sharemesh.ports.cluster import Role
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.child_process import (
    ManagedProcess,
    ProcessPlan,
    ProcessState,
    ProcessStatus,
)
from sharemesh.serve.supervise.child_protocol import role_command
from tests.etcd_server import EtcdServer
from tests.faults.namespaces import Namespaces, available, inside
from tests.faults.steady import Size, SteadyLoad, steady_load
from tests.faults.trials import Outcome
from tests.history.journal import now_ms
from tests.mesh.loaded_mesh import LoadedMesh

NODE = "share-leader-2"
NODES = 2
READY_TIMEOUT_S = 30
RECOVERY_TIMEOUT_S = 30
BACK_S = 3.0


async def leader_cut_off(_number: int, seed: int, *, size: Size | None = None) -> Outcome:
    """Cut a leader off until others deliver all its partitions, and for a while; then heal it."""
    if not available():
        return Outcome((), (), "not run: making network namespaces needs root")
    with tempfile.TemporaryDirectory(prefix="sharemesh-cut-") as folder, Namespaces() as net:
        return await _trial(Path(folder), net, seed, size or Size())


async def _trial(work: Path, net: Namespaces, seed: int, size: Size) -> Outcome:
    etcd = EtcdServer(work / "etcd", arguments=("--listen-client-urls=http://0.0.0.0:{port}",))
    etcd.arguments = tuple(each.format(port=etcd.client_port) for each in etcd.arguments)
    name, address = net.add()
    serve = ServeSettings(
        data_directory=work / "data",
        cluster_id="faults",
        etcd_endpoints=(f"{net.host}:{etcd.client_port}",),
    )
    up = UpSettings(base_port=0, host=net.host, share_leaders=NODES)
    await etcd.start()
    try:
        extra = partial(_leader_inside, name, address)
        async with steady_load(size, seed, serve=serve, up=up, extra=extra) as load:
            took_ms, note = await _cut(load, net, name)
            await load.flowing()
    finally:
        etcd.stop()
    return Outcome(tuple(load.violations), (took_ms,), note)


async def _cut(load: SteadyLoad, net: Namespaces, name: str) -> tuple[float, str]:
    led = await load.loaded.partitions_led_by(NODE)
    if not led:
        load.violations.append("the leader to be cut off led nothing")
        return float("inf"), ""
    at_ms = now_ms()
    net.cut(name)
    load.tail.read()
    held = load.locks(led, at_ms)
    try:
        took_ms = await load.until_each(
            led,
            lambda each: load.tail.first_delivery_ms(each, at_ms, above=led[each]),
            at_ms,
            RECOVERY_TIMEOUT_S,
            "partitions of the leader that is cut off deliver elsewhere",
        )
    finally:
        net.heal(name)
    await asyncio.sleep(BACK_S)
    return took_ms, f"{len(led)} partitions, {held} locks"


@asynccontextmanager
async def _leader_inside(name: str, address: str, loaded: LoadedMesh) -> AsyncIterator[None]:
    """Run a third share leader in the namespace, as part of the mesh's cluster."""
    ready = asyncio.Event()

    def changed(status: ProcessStatus) -> None:
        if status.state is ProcessState.READY:
            ready.set()

    def command(_status: ProcessStatus, descriptor: int) -> tuple[str, ...]:
        words = role_command(
            loaded.load.settings,
            role=Role.SHARE_LEADER,
            node_id=NODE,
            host=address,
            port=0,
            etcd_endpoints=loaded.cluster.etcd_endpoints,
            descriptor=descriptor,
        )
        return (*inside(name), *words)

    leader = ManagedProcess(
        ProcessStatus(NODE, str(Role.SHARE_LEADER), NODES, node_id=NODE),
        ProcessPlan(command=command, log=loaded.work / "logs" / "cut-off.log"),
        SystemClock(),
        changed,
    )
    (loaded.work / "logs").mkdir(parents=True, exist_ok=True)
    leader.start()
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            await ready.wait()
        yield
    finally:
        await leader.stop(0)
