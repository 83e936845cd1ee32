"""A mesh under steady load with Kafka's clients: what every trial of part listener stands on.

Each kind of client is a share group of its own on the same records, with several members in one
process. All talk through a proxy. The history of each group is judged at the end of a series.
"""

import asyncio
import random
import shutil
import signal
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.child_process import ProcessStatus
from tests.faults.brokers.broker_load import loud
from tests.faults.brokers.frame_proxy import FrameProxy
from tests.faults.claim_watch import watched_claims
from tests.faults.kafka_clients.programs import command
from tests.faults.kafka_clients.wire_grants import WireGrants
from tests.faults.steady import FIELDS, rows_while
from tests.faults.tail import PartitionTail, Tail
from tests.faults.trials import ROOT
from tests.history.checker import History, Report
from tests.history.journal import now_ms, read
from tests.mesh.loaded_mesh import Load, LoadedMesh
from tests.mesh.outcome import DurableState, durable_state

ADVERTISED = "127.0.0.2"
"""Every process listens on 127.0.0.1 and says this: there is the proxy, on the same port."""

PARTITIONS = 4
MEMBERS = 5  # more than partitions, so that some members share one
PER_SECOND = 120
HOLD_MS = 50
DELIVERY_COUNT_LIMIT = 10
BOUND_S = 60.0
"""From a fault until every partition and every member goes on; beyond it a client is stuck."""

FINISH_S = 90
POLL_S = 0.1
KEEP_MS = 10_000
ASSIGNED_S = 90.0
RESTART_MS = 60_000


@dataclass(slots=True)
class ClientGroup:
    """The members of one kind of client, and what is known of them."""

    kind: str
    group: str
    tail: Tail
    violations: list[str] = field(default_factory=list)
    told: str = ""

    @property
    def members(self) -> list[str]:
        """Their names, which are their client ids."""
        return [f"{self.kind}-{number}" for number in range(MEMBERS)]


@dataclass(slots=True)
class ClientLoad:
    """What a trial may do things to; ``violations`` are those of the mesh, not of one client."""

    loaded: LoadedMesh
    proxy: FrameProxy
    grants: WireGrants
    groups: list[ClientGroup]
    rng: random.Random
    violations: list[str]
    produced: Tail
    producing: "asyncio.Task[None] | None" = None
    _stop: bool = False
    _restarting: list[tuple[ProcessStatus, int]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """All partitions."""
        topic = self.loaded.load.topic
        return [f"{topic}/{number}" for number in range(PARTITIONS)]

    async def start(self) -> None:
        """Create topic and groups, start members and producer, wait until everything flows."""
        loaded = self.loaded
        await loaded.prepare()
        self.grants.name(loaded.topic_id, loaded.load.topic)
        bootstrap = ",".join(loaded.cluster.kafka_bootstrap)
        for each in self.groups:
            await loaded.admin.alter_group_configs(
                each.group,
                {
                    "share.auto.offset.reset": "earliest",
                    "share.delivery.count.limit": str(DELIVERY_COUNT_LIMIT),
                },
            )
            journals = loaded.journals / each.kind
            journals.mkdir(parents=True)
            about = (bootstrap, each.group, loaded.load.topic, str(FIELDS), str(HOLD_MS))
            arguments = [*about, str(journals), *each.members]
            program = await asyncio.to_thread(command, each.kind, arguments)
            loaded.start_program(each.kind, program)
        rows = rows_while(lambda: not self._stop, self.rng)
        self.producing = asyncio.create_task(
            loaded.produce(rows, per_second=PER_SECOND, spread=True)
        )
        await self.flowing()

    def kill(self, role: str, index: int, number: signal.Signals = signal.SIGKILL) -> float:
        """Send a signal that ends a process, which is started again; return when."""
        status = self.loaded.cluster.status(role, index)
        self._restarting.append((status, status.restarts))
        at_ms = now_ms()
        self.loaded.cluster.kill(role, index, number)
        return at_ms

    def heartbeat_ms(self, member: str) -> float:
        """Return when a member last had a heartbeat answered."""
        return self.grants.heartbeats.get(member, 0.0)

    async def flowing(self) -> None:
        """Wait until all processes are ready (again) and everybody gets what is new."""
        restarting, self._restarting = self._restarting, []
        restarted = await self.loaded.cluster.wait_for(
            lambda: all(status.restarts > before for status, before in restarting), RESTART_MS
        )
        if not restarted or not await self.loaded.all_ready():
            self.violations.append("not every process was ready again within 60 s")
        for each in self.groups:
            each.tail.forget_before(now_ms() - KEEP_MS)
        await self.until_fresh(now_ms(), bound_s=ASSIGNED_S)

    async def until_fresh(self, at_ms: float, *, bound_s: float = BOUND_S) -> dict[str, float]:
        """Wait until every partition and every member of each group goes on.

        A partition goes on once it delivered what was produced after this call began, and had an
        acknowledgement confirmed later; a member once it got such a record. Return by kind how long
        after a time the last partition went on; never within the bound: a violation, and infinite.
        """
        self.produced.read()
        marks = {name: self.produced.partitions[name].newest for name in self.names}
        waits = (self._goes_on(each, at_ms, marks, bound_s) for each in self.groups)
        kinds = (each.kind for each in self.groups)
        return dict(zip(kinds, await asyncio.gather(*waits), strict=True))

    async def _goes_on(
        self, group: ClientGroup, at_ms: float, marks: dict[str, int], bound_s: float
    ) -> float:
        deadline = asyncio.get_running_loop().time() + bound_s
        while True:
            group.tail.read()
            if self.producing is not None and self.producing.done():
                self.producing.result()
            partitions = {
                name: _went_on_ms(group.tail.partitions[name], mark) for name, mark in marks.items()
            }
            going = {
                seen.who
                for name, mark in marks.items()
                for seen in group.tail.partitions[name].deliveries
                if seen.last > mark
            }
            waiting = sorted(name for name, found in partitions.items() if found is None)
            waiting += sorted({*group.members} - going)
            if not waiting:
                return max(found for found in partitions.values() if found is not None) - at_ms
            if asyncio.get_running_loop().time() > deadline:
                group.violations.append(f"stuck for {bound_s:.0f} s: {', '.join(waiting)}")
                return float("inf")
            await asyncio.sleep(POLL_S)

    async def end(self) -> None:
        """Stop producing, let everything finish, judge the history of each group."""
        self._stop = True
        assert self.producing is not None
        await self.producing
        loaded = self.loaded
        for each in self.groups:
            if not await loaded.finished(FINISH_S, group=each.group):
                lag = await loaded.lag(each.group)
                each.violations.append(f"lag is {lag} after {FINISH_S} s: stuck")
        await loaded.stop_workers()
        for each in self.groups:
            await asyncio.to_thread(self._judge, each)
        self.violations += await asyncio.to_thread(loud, loaded.cluster.logs)

    def _judge(self, group: ClientGroup) -> None:
        loaded = self.loaded
        state = durable_state(loaded.data, group.group, loaded.load.topic, loaded.topic_id)
        report = self._report(group, state)
        group.violations += report.violations
        group.told = (
            f"{report.produced} records, {report.delivered + report.redelivered} deliveries, "
            f"{report.refused_acknowledgements} acknowledgements without a yes"
        )
        ended = len(state.acknowledged | state.archived)
        if ended != report.produced + loaded.unplaced:
            produced = report.produced + loaded.unplaced
            group.violations.append(f"{ended} of {produced} records ended")

    def _report(self, group: ClientGroup, state: DurableState) -> Report:
        journals = self.loaded.journals
        own = (journals / group.kind).glob("*.jsonl")
        history = History(delivery_count_limit=DELIVERY_COUNT_LIMIT)
        entries = read([journals / "producer.jsonl", *own])
        history.add(self.grants.attributed(entries, group.violations))
        unseen: dict[str, set[int]] = defaultdict(set)
        for partition, offset in state.archived:
            if self.grants.lost(group.members, partition, offset):
                unseen[partition].add(offset)
        return history.judge(state.start_offsets, state.terminal, excused=unseen)


def _went_on_ms(tail: PartitionTail, mark: int) -> float | None:
    """Return when a partition had delivered what lies behind a mark, and confirmed something."""
    fresh = min((seen.time_ms for seen in tail.deliveries if seen.last > mark), default=None)
    if fresh is None:
        return None
    return min((time_ms for time_ms in tail.confirmed_ms if time_ms > fresh), default=None)


@asynccontextmanager
async def client_load(kinds: Sequence[str], seed: int, name: str) -> AsyncIterator[ClientLoad]:
    """Run a mesh under load; leaving it judges the histories, an error drops everything.

    Of a run with violations journals and logs are kept below ``build/faults``, under its name.
    """
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="sharemesh-listener-") as folder:
        work = Path(folder)
        load = Load(
            topic="orders",
            group="billing",
            partitions=PARTITIONS,
            fields=FIELDS,
            settings=ServeSettings(
                data_directory=work / "data",
                cluster_id="faults",
                kafka_listener_advertised_host=ADVERTISED,
            ),
            up=UpSettings(
                base_port=0,
                share_leaders=3,
                share_coordinators=2,
                group_coordinators=2,
                kafka_listener="127.0.0.1:0",
            ),
        )
        violations: list[str] = []
        async with LoadedMesh(work, load) as loaded:
            processes = [each for each in loaded.cluster.processes if each.kafka]
            ports = [int(each.kafka.rpartition(":")[2]) for each in processes]
            grants = WireGrants([each.node_id for each in processes])
            proxy = FrameProxy(rng, ports, ports, host=ADVERTISED, seen=grants.answered)
            endpoints = loaded.cluster.etcd_endpoints
            groups = [
                ClientGroup(each, f"billing-{each}", Tail(loaded.journals / each)) for each in kinds
            ]
            running = ClientLoad(
                loaded, proxy, grants, groups, rng, violations, Tail(loaded.journals)
            )
            async with proxy, watched_claims(endpoints, violations, on_claim=grants.claimed):
                try:
                    await running.start()
                    yield running
                    await running.end()
                finally:
                    if running.producing is not None:
                        running.producing.cancel()
                        await asyncio.gather(running.producing, return_exceptions=True)
                    if violations or any(each.violations for each in groups):
                        _keep(ROOT / "build" / "faults" / f"{name}-{seed}", loaded)


def _keep(kept: Path, loaded: LoadedMesh) -> None:
    for folder in (loaded.journals, loaded.work / "logs", loaded.cluster.logs):
        shutil.copytree(folder, kept / folder.name, dirs_exist_ok=True)
