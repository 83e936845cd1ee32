"""Part etcd of `make faults`: etcd dies, freezes, is cut off or goes back in time, under load.

Each time is counted from the moment when etcd could work again (for a lost minority: from the
loss) until a topic can be created and no partition has paused for more than a second since.
"""

import asyncio
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from sharemesh.client.errors import SharemeshError
from sharemesh.serve.settings import ServeSettings, UpSettings
from tests.etcd_server import EtcdServer, make_cluster
from tests.faults.claim_watch import watched_claims
from tests.faults.etcd_nodes import EtcdNodes, etcdctl, etcdutl
from tests.faults.namespaces import Namespaces, available
from tests.faults.steady import Size, SteadyLoad, steady_load
from tests.faults.tail import last_outage_end_ms
from tests.faults.trials import Fault, Outcome, Series
from tests.history.journal import now_ms

FROZEN_S = 20.0
DOWN_S = 1.0
HEAL_TIMEOUT_S = 60
OUTAGE_MS = 1_000
LEASES_OUT_S = 16.0  # leases of the backup run out after ten
PROBE_S = 0.1
Trial = Callable[[SteadyLoad], Awaitable[float]]


async def healed_ms(load: SteadyLoad, since_ms: float, *, settle_s: float = 0.0) -> float:
    """Wait until data and control plane work again; return ms since a time.

    ``settle_s``: how long to watch at least, because leaders may still stop after a first success.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + HEAL_TIMEOUT_S
    name = f"probe-{since_ms:.0f}"
    while True:
        try:
            await load.scene.admin.create_topic(name, 1)
        except SharemeshError as error:
            if "exist" in str(error):
                break
            if loop.time() > deadline:
                load.violations.append(f"no topic could be created: {error}")
                break
            await asyncio.sleep(PROBE_S)
        else:
            break
    created_ms = now_ms() - since_ms
    await asyncio.sleep(settle_s)

    def first(partition: str) -> float | None:
        return load.tail.first_delivery_ms(partition, since_ms + load.size.hold_ms)

    await load.until(
        lambda: all(first(each) is not None for each in load.names),
        HEAL_TIMEOUT_S,
        "every partition delivers again",
    )
    ends = [
        last_outage_end_ms(
            [seen.time_ms for seen in load.tail.partitions[each].deliveries], since_ms, OUTAGE_MS
        )
        for each in load.names
    ]
    return max(created_ms, *ends)


async def run(
    trial: Trial, count: int, seed: int, endpoints: tuple[str, ...], **rest: object
) -> Outcome:
    """Run a fault ``count`` times on one mesh that uses a given etcd."""
    size = rest.get("size")
    assert size is None or isinstance(size, Size)
    watch_claims = bool(rest.get("watch_claims", True))
    times: list[float] = []
    with tempfile.TemporaryDirectory(prefix="sharemesh-etcd-") as folder:
        serve = ServeSettings(
            data_directory=Path(folder) / "data", cluster_id="faults", etcd_endpoints=endpoints
        )
        async with (
            steady_load(size or Size(), seed, serve=serve, up=UpSettings(base_port=0)) as load,
            watched_claims(endpoints, load.violations, judge=watch_claims),
        ):
            for _ in range(count):
                await load.flowing()
                times.append(await trial(load))
            await load.flowing()
    return Outcome(tuple(load.violations), tuple(times), trials=count)


async def etcd_kill(count: int, seed: int, *, size: Size | None = None) -> Outcome:
    """SIGKILL of the only etcd; it comes back after a second."""
    with tempfile.TemporaryDirectory(prefix="etcd-") as folder:
        etcd = EtcdServer(Path(folder))
        await etcd.start()

        async def trial(load: SteadyLoad) -> float:
            etcd.stop()
            await asyncio.sleep(DOWN_S)
            at_ms = now_ms()
            await etcd.start()
            return await healed_ms(load, at_ms)

        try:
            return await run(trial, count, seed, (etcd.endpoint,), size=size)
        finally:
            etcd.stop()


async def etcd_frozen(
    count: int, seed: int, *, size: Size | None = None, frozen_s: float = FROZEN_S
) -> Outcome:
    """SIGSTOP of the only etcd for longer than the lease, then SIGCONT."""
    with tempfile.TemporaryDirectory(prefix="etcd-") as folder:
        etcd = EtcdServer(Path(folder))
        await etcd.start()

        async def trial(load: SteadyLoad) -> float:
            etcd.send_signal(signal.SIGSTOP)
            await asyncio.sleep(frozen_s)
            at_ms = now_ms()
            etcd.send_signal(signal.SIGCONT)
            return await healed_ms(load, at_ms)

        try:
            return await run(trial, count, seed, (etcd.endpoint,), size=size)
        finally:
            etcd.stop()


async def etcd_one_of_three_lost(count: int, seed: int, *, size: Size | None = None) -> Outcome:
    """SIGKILL of each node of three in turn; the others go on, then it comes back."""
    with tempfile.TemporaryDirectory(prefix="etcd-") as folder:
        nodes = make_cluster(Path(folder))
        for node in nodes:
            node.launch()
        try:
            for node in nodes:
                await node.ready()
            turns = [nodes[number % len(nodes)] for number in range(count)]

            async def trial(load: SteadyLoad) -> float:
                node = turns.pop()
                at_ms = now_ms()
                node.stop()
                took_ms = await healed_ms(load, at_ms)
                await node.start()
                return took_ms

            endpoints = tuple(node.endpoint for node in nodes)
            return await run(trial, count, seed, endpoints, size=size)
        finally:
            for node in nodes:
                node.stop()


async def etcd_leader_cut(count: int, seed: int, *, size: Size | None = None) -> Outcome:
    """The leader of a three-node etcd is cut off from everybody, for longer than the lease."""
    if not available():
        return Outcome((), (), "not run: making network namespaces needs root", trials=count)
    with tempfile.TemporaryDirectory(prefix="etcd-") as folder, Namespaces() as net:
        async with EtcdNodes(Path(folder), net) as nodes:

            async def trial(load: SteadyLoad) -> float:
                leader = await asyncio.to_thread(nodes.leader)
                at_ms = now_ms()
                net.cut(leader)
                took_ms = await healed_ms(load, at_ms)
                net.heal(leader)
                return took_ms

            return await run(trial, count, seed, nodes.endpoints, size=size)


async def etcd_restored(_number: int, seed: int, *, size: Size | None = None) -> Outcome:
    """Etcd goes back to a backup that is older than the data: epochs in it were used since."""
    with tempfile.TemporaryDirectory(prefix="etcd-") as folder:
        work = Path(folder)
        etcd = EtcdServer(work / "etcd")
        await etcd.start()

        async def trial(load: SteadyLoad) -> float:
            backup = work / "backup.db"
            await asyncio.to_thread(
                etcdctl, "snapshot", "save", str(backup), endpoints=(etcd.endpoint,)
            )
            for _ in range(2):  # epochs rise above those of the backup
                index, _partitions = await load.busiest_leader()
                load.scene.kill_role("share-leader", index)
                await asyncio.sleep(DOWN_S)
                await load.flowing()
            etcd.stop()
            await asyncio.to_thread(_restore, etcd, backup)
            at_ms = now_ms()
            await etcd.start()
            return await healed_ms(load, at_ms, settle_s=LEASES_OUT_S)

        try:
            return await run(trial, 1, seed, (etcd.endpoint,), size=size, watch_claims=False)
        finally:
            etcd.stop()


def _restore(etcd: EtcdServer, backup: Path) -> None:
    data = etcd.directory / "data"
    data.rename(etcd.directory / "old")
    etcdutl(
        "snapshot",
        "restore",
        str(backup),
        f"--data-dir={data}",
        f"--name={etcd.name}",
        f"--initial-cluster={etcd.initial_cluster}",
        f"--initial-advertise-peer-urls={etcd.peer_url}",
    )
    subprocess.run(["rm", "-rf", str(etcd.directory / "old")], check=True)


FAULTS: tuple[Fault | Series, ...] = (
    Series("etcd_kill", 10, etcd_kill, at_once=5),
    Series("etcd_frozen", 10, etcd_frozen, at_once=5),
    Series("etcd_leader_cut", 10, etcd_leader_cut, at_once=5),
    Series("etcd_one_of_three_lost", 10, etcd_one_of_three_lost, at_once=5),
    Fault("etcd_restored", 10, etcd_restored),
)
