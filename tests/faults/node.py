"""Real role processes for fault trials: `sharemesh serve` with all roles, over one real etcd.

A `Place` is one cluster: an etcd, a data directory on a real disk, and nodes that are killed,
stopped and started again by the trial. Its lease dies with a killed node, as with a supervisor.
"""

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import connect
from sharemesh.client.errors import SharemeshError
from sharemesh.domain.ids import TopicId
from sharemesh.ports.coordination import CoordinationError
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.serve.supervise.child_protocol import ReportKind, parse_report
from tests.etcd_server import EtcdServer
from tests.faults.trials import ROOT

START_TIMEOUT_S = 60
LEAD_TIMEOUT_S = 30
POLL_S = 0.02
CLUSTER = "faults"
STATE_SHARDS = 2


class Node:
    """One process of `sharemesh serve`; it dies with the trial."""

    def __init__(self, name: str, place: "Place") -> None:
        self.name = name
        self.place = place
        self.address = ""
        self.leases: list[int] = []
        self.process: asyncio.subprocess.Process | None = None
        self.log = place.work / f"{name}.log"
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(
        self, *, module: str = "sharemesh.serve", prefix: tuple[str, ...] = (), role: str = "all"
    ) -> None:
        """Start the process and wait until it is ready."""
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        flags = {
            "parent-pid": os.getpid(),
            "report-descriptor": writing,
            "role": role,
            "node-id": self.name,
            "cluster-id": CLUSTER,
            "data-directory": self.place.data,
            "etcd-endpoints": self.place.etcd.endpoint,
            "listen-port": 0,
            "group-shards": 2,
            "state-shards": STATE_SHARDS,
            "drain-timeout-ms": 0,
            "reflection": "false",
        }
        command = [*prefix, sys.executable, "-m", module]
        command += [f"--{name}={value}" for name, value in flags.items()]
        command += [word for each in self.place.configs for word in ("--set", each)]
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *command,
                cwd=ROOT,
                stdout=output,
                stderr=output,
                pass_fds=(writing,),
                env={**os.environ, **self.place.environment},
            )
        os.close(writing)
        self._reading = asyncio.ensure_future(self._read(reading))
        waiting = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait(
                {waiting, self._reading},
                timeout=START_TIMEOUT_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            waiting.cancel()
        if not self._ready.is_set():
            raise AssertionError(f"{self.name} did not start: {self.log.read_text()[-3_000:]}")

    async def _read(self, descriptor: int) -> None:
        reader = asyncio.StreamReader()
        pipe = os.fdopen(descriptor, "rb")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            while line := await reader.readline():
                report = parse_report(line)
                if report is not None and report.kind is ReportKind.LEASE:
                    self.leases.append(report.lease_id)
                elif report is not None and report.kind is ReportKind.READY:
                    self.address = f"{report.host}:{report.port}"
                    self._ready.set()
        finally:
            transport.close()

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    async def revoke(self) -> None:
        """End the leases of this node by hand, as an administrator or a supervisor does."""
        leases, self.leases = self.leases, []
        for lease in leases:
            try:
                await self.place.coordination.revoke(lease)
            except CoordinationError:
                continue  # it had run out

    async def kill(self) -> None:
        """SIGKILL, and what the supervisor does then."""
        if self.process is None:
            return
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        if self._reading is not None:
            await self._reading
        self.process = None
        await self.revoke()


class Place:
    """One cluster for one trial; use it as an async context manager."""

    def __init__(self, *, configs: tuple[str, ...] = ()) -> None:
        (ROOT / "build").mkdir(exist_ok=True)
        self._folder = tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="trial-")
        self.work = Path(self._folder.name)
        self.data = self.work / "data"
        self.configs = configs
        self.environment: dict[str, str] = {}
        self.etcd = EtcdServer(self.work / "etcd")
        self.nodes: dict[str, Node] = {}
        self.clock = SystemClock()
        self.caller = GrpcCaller(self.clock)
        self.topics: dict[str, TopicId] = {}

    async def __aenter__(self) -> "Place":
        await self.etcd.start()
        self.coordination = EtcdCoordination(
            [self.etcd.endpoint], clock=self.clock, rng=SystemRandom()
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in list(self.nodes.values()):
            await node.kill()
        await self.caller.close()
        await self.coordination.close()
        self.etcd.stop()
        self._folder.cleanup()

    async def node(
        self,
        name: str,
        *,
        module: str = "sharemesh.serve",
        prefix: tuple[str, ...] = (),
        role: str = "all",
    ) -> Node:
        """Start a node (again)."""
        node = self.nodes[name] = Node(name, self)
        await node.start(module=module, prefix=prefix, role=role)
        return node

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in reversed(self.nodes.values()) if node.alive)

    async def create_topic(self, name: str, partitions: int, **configs: str) -> TopicId:
        """Create a topic and wait until each partition is led."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        async with connect(self.bootstrap).async_admin() as admin:
            await admin.create_topic(name, partitions, configs=settings)
            described = (await admin.describe_topics([name]))[name]
            if isinstance(described, Exception):
                raise described
        self.topics[name] = TopicId(bytes.fromhex(described.topic_id))
        await self.led(name, partitions)
        return self.topics[name]

    async def leaders(self, topic: str) -> dict[int, str]:
        """Return node ids that lead partitions now; "" is nobody."""
        async with connect(self.bootstrap).async_admin() as admin:
            described = (await admin.describe_topics([topic]))[topic]
            if isinstance(described, Exception):
                raise described
            return {each.partition: each.leader_id for each in described.partitions}

    async def led(self, topic: str, partitions: int, by: str = "") -> None:
        """Wait until each partition is led (by a node)."""
        async with asyncio.timeout(LEAD_TIMEOUT_S):
            while True:
                try:
                    leaders = await self.leaders(topic)
                    if len(leaders) == partitions and all(
                        each == by if by else each for each in leaders.values()
                    ):
                        return
                except SharemeshError:
                    pass
                await asyncio.sleep(POLL_S)

    def partition_directory(self, topic: str, partition: int) -> Path:
        return self.data / "records" / self.topics[topic].hex() / f"{partition:05d}"
