"""A whole mesh under load: local cluster, producer, consumers in processes, and the verdict.

Used by the demo, by the integration tests and by the fault trials. Everything that a run writes
lies in one work directory: ``data`` (the cluster's) and ``journals``.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import AsyncAdminClient, connect
from sharemesh.client.admin_results import GroupOffset, TopicDescription
from sharemesh.client.errors import SharemeshError
from sharemesh.domain.ids import TopicId
from sharemesh.ports.cluster import Role
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.child_process import ProcessState
from sharemesh.serve.supervise.local_cluster import LocalCluster
from tests.history.checker import Report
from tests.history.journal import Entry, Journal, now_ms, read
from tests.mesh.outcome import DurableState, durable_state, judge

ROOT = Path(__file__).parents[2]
DELIVERY_COUNT_LIMIT = 5
POLL_S = 0.1
REGISTERED_TIMEOUT_S = 15
WORKER_STOP_TIMEOUT_S = 15
TICKS_PER_S = 20


@dataclass(frozen=True, slots=True)
class Load:
    """What is produced and how it is consumed."""

    topic: str = "flights"
    group: str = "tower"
    partitions: int = 6
    fields: int = 19
    hold_ms: int = 0
    dependency: Path | None = None
    settings: ServeSettings = field(default_factory=ServeSettings)
    up: UpSettings = field(default_factory=lambda: UpSettings(base_port=0))


class RowProducer(Protocol):
    """What a run asks of the client that produces."""

    async def send(
        self, topic: str, value: bytes, *, key: bytes, partition: int | None
    ) -> "asyncio.Future[object]":
        """Queue one record; the future says where it was confirmed."""
        ...

    async def flush(self) -> None:
        """Return once everything that was sent is confirmed or failed."""
        ...


class LoadedMesh:
    """One run; use it as an async context manager."""

    def __init__(self, work: Path, load: Load) -> None:
        self.work = work
        self.load = load
        self.cluster = LocalCluster(load.settings, load.up, clock=SystemClock())
        self.produced = 0
        self.unplaced = 0
        """Of these: their leader had them already, and did not say where."""

        self.topic_id = TopicId(b"")
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._journal = Journal(self.journals / "producer.jsonl", "producer")
        self._admin: AsyncAdminClient | None = None

    @property
    def journals(self) -> Path:
        """Where every process's journal lies."""
        return self.work / "journals"

    @property
    def data(self) -> Path:
        """The data directory of the cluster."""
        return self.cluster.directory

    @property
    def admin(self) -> AsyncAdminClient:
        """The admin client of a started mesh."""
        assert self._admin is not None
        return self._admin

    @property
    def bootstrap(self) -> str:
        """Addresses of all ready processes."""
        return ",".join(self.cluster.bootstrap)

    async def __aenter__(self) -> "LoadedMesh":
        await self.cluster.start()
        self._admin = connect(self.bootstrap).async_admin()
        try:
            await self._check_distinct()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def _check_distinct(self) -> None:
        """Fail unless every role runs in a process of its own, beside a real etcd."""
        wanted = sum(map(self.load.up.count, Role))
        async with asyncio.timeout(REGISTERED_TIMEOUT_S):  # whoever is asked may be a little behind
            while len(told := await self._registered_pids()) < wanted:
                await asyncio.sleep(POLL_S)
        assert len({*told, os.getpid()}) == wanted + 1, f"pids are not distinct: {told}"
        others = {process.pid for process in self.cluster.processes} - set(told)
        own_etcd = 0 if self.load.settings.etcd_endpoints else 1
        assert len(others) == own_etcd, f"no etcd beside the roles: {self.cluster.processes}"

    async def _registered_pids(self) -> list[int]:
        return [node.pid for node in (await self.admin.describe_cluster()).nodes]

    async def __aexit__(self, *_: object) -> None:
        for name in list(self._workers):
            self.kill_worker(name)
        if self._admin is not None:
            await self._admin.close()
        await self.cluster.stop()
        self._journal.close()

    async def prepare(self) -> None:
        """Create the topic, and let the group begin at the first record."""
        await self.admin.create_topic(self.load.topic, self.load.partitions)
        self.topic_id = TopicId(bytes.fromhex((await self._described()).topic_id))
        await self.admin.alter_group_configs(
            self.load.group, {"share.auto.offset.reset": "earliest"}
        )

    def producer(self) -> AbstractAsyncContextManager[RowProducer]:
        """Return the client that produces."""
        return connect(self.bootstrap).async_producer()

    async def produce(
        self,
        rows: Iterable[tuple[bytes, bytes]],
        *,
        per_second: int,
        spread: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Produce keyed rows at a steady rate; each confirmed range is journaled.

        With ``spread`` partitions take turns; else the key decides.
        """
        loop = asyncio.get_running_loop()
        pending: list[asyncio.Future[object]] = []
        started, sent = loop.time(), 0
        async with self.producer() as producer:
            for key, value in rows:
                turn = sent % self.load.partitions if spread else None
                pending.append(await producer.send(self.load.topic, value, key=key, partition=turn))
                sent += 1
                if sent % max(per_second // TICKS_PER_S, 1) == 0:
                    await asyncio.sleep(max(0.0, started + sent / per_second - loop.time()))
                    pending = self._journal_done(pending)
                    if on_progress is not None:
                        on_progress(self.produced)
            await self._settle(producer, pending)
        if on_progress is not None:
            on_progress(self.produced)

    async def _settle(self, producer: RowProducer, pending: "list[asyncio.Future[object]]") -> None:
        await producer.flush()
        await asyncio.gather(*pending)
        self._journal_done(pending)

    def _journal_done(
        self, pending: "list[asyncio.Future[object]]"
    ) -> "list[asyncio.Future[object]]":
        offsets: dict[str, list[int]] = defaultdict(list)
        waiting = []
        for future in pending:
            if not future.done():
                waiting.append(future)
                continue
            where = future.result()
            self.produced += 1
            if where.offset is None:
                self.unplaced += 1
                continue
            offsets[f"{where.topic}/{where.partition}"].append(where.offset)
        for partition, found in offsets.items():
            found.sort()
            begin = previous = found[0]
            for offset in [*found[1:], None]:
                if offset is None or offset != previous + 1:
                    self._journal.produced(partition, begin, previous)
                    begin = offset
                previous = offset
        return waiting

    def start_worker(self, name: str, behaviour: str = "steady") -> int:
        """Start a consumer process and return its pid."""
        arguments = {
            "bootstrap": self.bootstrap,
            "group": self.load.group,
            "topic": self.load.topic,
            "name": name,
            "behaviour": behaviour,
            "journal": str(self.journals / f"{name}.jsonl"),
            "fields": str(self.load.fields),
            "hold-ms": str(self.load.hold_ms),
            "dependency": str(self.load.dependency or ""),
        }
        command = [sys.executable, "-m", "tests.mesh.worker"]
        command += [word for key, value in arguments.items() for word in (f"--{key}", value)]
        return self.start_program(name, command)

    def start_program(self, name: str, command: Sequence[str]) -> int:
        """Start a process that consumes, whatever it is, and return its pid."""
        log = self.work / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=output, stderr=output, env={**os.environ}
            )
        self._workers[name] = process
        return process.pid

    def kill_worker(self, name: str) -> float:
        """Send SIGKILL to a consumer; return when."""
        process = self._workers.pop(name)
        at_ms = now_ms()
        process.kill()
        process.wait()
        return at_ms

    def kill_role(self, role: str, index: int) -> float:
        """Send SIGKILL to a role process; return when. The supervisor starts it again."""
        at_ms = now_ms()
        self.cluster.kill(role, index, signal.SIGKILL)
        return at_ms

    async def stop_workers(self) -> None:
        """Ask all consumers to stop, and wait."""
        for process in self._workers.values():
            process.terminate()
        for name, process in list(self._workers.items()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, WORKER_STOP_TIMEOUT_S)
            if process.poll() is None:
                process.kill()
                process.wait()
            del self._workers[name]

    async def lag(self, group: str | None = None) -> int | None:
        """Return records of the group that are not finished; None when nobody can say now."""
        try:
            offsets = await self.admin.list_share_group_offsets(group or self.load.group)
        except SharemeshError:  # whoever was asked may just have been killed
            return None
        lags = [found.lag for found in offsets.values() if isinstance(found, GroupOffset)]
        if len(lags) < self.load.partitions or min(lags) < 0:
            return None
        return sum(lags)

    async def finished(
        self,
        timeout_s: float,
        on_lag: Callable[[int], None] | None = None,
        group: str | None = None,
    ) -> bool:
        """Wait until no record is left unfinished; return whether that came to be."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while asyncio.get_running_loop().time() < deadline:
            lag = await self.lag(group)
            if lag is not None and on_lag is not None:
                on_lag(lag)
            if lag == 0:
                return True
            await asyncio.sleep(POLL_S)
        return False

    async def all_ready(self, timeout_ms: int = 60_000) -> bool:
        """Wait until every process of the cluster is ready (again)."""
        return await self.cluster.wait_for(
            lambda: all(p.state is ProcessState.READY for p in self.cluster.processes), timeout_ms
        )

    async def leader_of(self, partition: int) -> tuple[str, int]:
        """Return (node id, index of the share leader) that leads a partition now.

        Raises:
            TimeoutError: There was none for ten seconds.
        """
        async with asyncio.timeout(10):
            while True:
                node_id = (await self._described()).partitions[partition].leader_id
                if node_id:
                    return node_id, int(node_id.rsplit("-", 1)[1])
                await asyncio.sleep(POLL_S)

    async def partitions_led_by(self, node_id: str) -> dict[str, int]:
        """Return the leader epoch of each partition ("topic/number") that a node leads now."""
        return {
            f"{self.load.topic}/{partition.partition}": partition.leader_epoch
            for partition in (await self._described()).partitions
            if partition.leader_id == node_id
        }

    async def busiest_leader(self) -> tuple[int, dict[str, int]]:
        """Return (index, leader epoch by partition) of the share leader that leads most."""
        led = {
            index: await self.partitions_led_by(f"share-leader-{index}")
            for index in range(self.load.up.share_leaders)
        }
        index = max(led, key=lambda each: len(led[each]))
        return index, led[index]

    async def leader_epochs(self) -> dict[str, int]:
        """Return the epoch of the leader of each partition ("topic/number") that has one now."""
        return {
            f"{self.load.topic}/{partition.partition}": partition.leader_epoch
            for partition in (await self._described()).partitions
            if partition.leader_id
        }

    async def leaders(self) -> dict[str, str]:
        """Return "node under leader epoch E" of each partition, for people."""
        return {
            f"{self.load.topic}/{partition.partition}": (
                f"{partition.leader_id or 'nobody'} under epoch {partition.leader_epoch}"
            )
            for partition in (await self._described()).partitions
        }

    async def _described(self) -> TopicDescription:
        described = (await self.admin.describe_topics([self.load.topic]))[self.load.topic]
        if not isinstance(described, TopicDescription):
            raise described
        return described

    def entries(self) -> list[Entry]:
        """Return everything that was journaled so far, in order of time."""
        return list(read(self.journals.glob("*.jsonl")))

    def state(self) -> DurableState:
        """Return the durable state of the group, folded from the state log on disk."""
        return durable_state(self.data, self.load.group, self.load.topic, self.topic_id)

    def keep(self, violations: Sequence[str]) -> None:
        """Leave what explains violations, where this kind of run is told to."""

    def repeated(self) -> int:
        """Return how many records lie in the topic once more than they were produced."""
        return 0

    def verdict(self, state: DurableState) -> Report:
        """Judge all journals against the durable state."""
        return judge(
            self.journals.glob("*.jsonl"), state, delivery_count_limit=DELIVERY_COUNT_LIMIT
        )
