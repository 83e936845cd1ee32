"""Part etcd of `make faults`: etcd dies, freezes, is cut off or goes back in time, under load.

Each time is counted from the moment when etcd could work again (for a lost minority: from the
loss) until a topic can be created and no partition has paused for more than a second since.
"""

import asyncio
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from sharemesh.client.errors import SharemeshError
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from tests.etcd_server import EtcdServer
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
NEEDS_ROOT = "not run: making network namespaces needs root"
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
            await load.loaded.admin.create_topic(name, 1)
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

    await load.until_each(
        load.names,
        lambda each: load.tail.first_delivery_ms(each, since_ms + load.size.hold_ms),
        since_ms,
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
    trials: Sequence[Trial], seed: int, endpoints: tuple[str, ...], *, size: Size | None
) -> Outcome:
    """Run faults one after the other on one mesh that uses a given etcd; judge all of it."""
    times: list[float] = []
    with tempfile.TemporaryDirectory(prefix="sharemesh-etcd-") as folder:
        serve = ServeSettings(
            data_directory=Path(folder) / "data", cluster_id="faults", etcd_endpoints=endpoints
        )
        up = UpSettings(base_port=0)
        async with steady_load(size or Size(), seed, serve=serve, up=up) as load:
            for trial in trials:
                await load.flowing()
                judge = not isinstance(trial, Restored)
                async with watched_claims(endpoints, load.violations, judge=judge):
                    times.append(await trial(load))
            await load.flowing()
    return Outcome(tuple(load.violations), tuple(times), trials=len(trials))


async def on_one_etcd(
    trials_of: Callable[[EtcdServer], Sequence[Trial]], seed: int, *, size: Size | None = None
) -> Outcome:
    """Run faults of the only etcd."""
    with tempfile.TemporaryDirectory(prefix="etcd-") as folder:
        etcd = EtcdServer(Path(folder) / "etcd")
        await etcd.start()
        try:
            return await run(trials_of(etcd), seed, (etcd.endpoint,), size=size)
        finally:
            etcd.stop()


def killed(etcd: EtcdServer) -> Trial:
    """SIGKILL; it comes back after a second."""

    async def trial(load: SteadyLoad) -> float:
        etcd.stop()
        await asyncio.sleep(DOWN_S)
        at_ms = now_ms()
        await etcd.start()
        return await healed_ms(load, at_ms)

    return trial


def frozen(etcd: EtcdServer, frozen_s: float = FROZEN_S) -> Trial:
    """SIGSTOP for longer than the lease, then SIGCONT."""

    async def trial(load: SteadyLoad) -> float:
        etcd.send_signal(signal.SIGSTOP)
        await asyncio.sleep(frozen_s)
        at_ms = now_ms()
        etcd.send_signal(signal.SIGCONT)
        return await healed_ms(load, at_ms)

    return trial


class Restored:
    """Etcd goes back to a backup that is older than the data: epochs in it were used since."""

    def __init__(self, etcd: EtcdServer) -> None:
        self._etcd = etcd

    async def __call__(self, load: SteadyLoad) -> float:
        etcd = self._etcd
        backup = etcd.directory / "backup.db"
        await asyncio.to_thread(
            etcdctl, "snapshot", "save", str(backup), endpoints=(etcd.endpoint,)
        )
        for _ in range(2):  # epochs rise above those of the backup
            index, _partitions = await load.busiest_leader()
            load.loaded.kill_role("share-leader", index)
            await asyncio.sleep(DOWN_S)
            await load.flowing()
        etcd.stop()
        await asyncio.to_thread(go_back_to, etcd, backup)
        at_ms = now_ms()
        await etcd.start()
        return await healed_ms(load, at_ms, settle_s=LEASES_OUT_S)


def node_lost(nodes: EtcdNodes, number: int = 0) -> Trial:
    """SIGKILL of one node of three; the others go on, then it comes back."""

    async def trial(load: SteadyLoad) -> float:
        at_ms = now_ms()
        nodes.kill(number % len(nodes.endpoints))
        took_ms = await healed_ms(load, at_ms)
        await nodes.start(number % len(nodes.endpoints))
        return took_ms

    return trial


def leader_cut(nodes: EtcdNodes, net: Namespaces) -> Trial:
    """The leader of three nodes is cut off from everybody, for longer than the lease."""

    async def trial(load: SteadyLoad) -> float:
        leader = await asyncio.to_thread(nodes.leader)
        at_ms = now_ms()
        net.cut(leader)
        took_ms = await healed_ms(load, at_ms)
        net.heal(leader)
        return took_ms

    return trial


async def on_three_nodes(
    trials_of: Callable[[EtcdNodes, Namespaces], Sequence[Trial]],
    seed: int,
    *,
    size: Size | None = None,
) -> Outcome:
    """Run faults of an etcd of three nodes in network namespaces; needs root."""
    with tempfile.TemporaryDirectory(prefix="etcd-") as folder, Namespaces() as net:
        async with EtcdNodes(Path(folder), net) as nodes:
            return await run(trials_of(nodes, net), seed, nodes.endpoints, size=size)


async def etcd_kill(count: int, seed: int) -> Outcome:
    """The only etcd is killed and comes back."""
    return await on_one_etcd(lambda etcd: [killed(etcd)] * count, seed)


async def etcd_frozen(count: int, seed: int) -> Outcome:
    """The only etcd stands still for 20 s."""
    return await on_one_etcd(lambda etcd: [frozen(etcd)] * count, seed)


async def etcd_restored(_number: int, seed: int) -> Outcome:
    """The only etcd goes back in time."""
    return await on_one_etcd(lambda etcd: [Restored(etcd)], seed)


async def etcd_one_of_three_lost(count: int, seed: int) -> Outcome:
    """Each node of three is killed in turn."""
    if not available():
        return Outcome((), (), NEEDS_ROOT, trials=count)
    return await on_three_nodes(
        lambda nodes, _net: [node_lost(nodes, number) for number in range(count)], seed
    )


async def etcd_leader_cut(count: int, seed: int) -> Outcome:
    """The leader of three nodes is cut off."""
    if not available():
        return Outcome((), (), NEEDS_ROOT, trials=count)
    return await on_three_nodes(lambda nodes, net: [leader_cut(nodes, net)] * count, seed)


def go_back_to(etcd: EtcdServer, backup: Path) -> None:
    """Let a stopped etcd hold what a backup holds."""
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
