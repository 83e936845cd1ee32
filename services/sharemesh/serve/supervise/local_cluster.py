"""A whole cluster of processes on one machine: start, watch, restart, revoke, stop."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import SystemRandom

from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.cluster.store.records import ClusterRecord
from sharemesh.codec.log_layout import DataDirectoryError
from sharemesh.methods import DESCRIBE_CLUSTER
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import KAFKA_ROLES, Role
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.ports.network import CallFailedError
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.process.coordination import connect_etcd, create_cluster, reach
from sharemesh.serve.process.identity import Identity, with_secret
from sharemesh.serve.settings.kafka_settings import (
    check_kafka_listener,
    check_kafka_listener_is_on,
)
from sharemesh.serve.settings.room_settings import tls_files
from sharemesh.serve.settings.settings import LOGS, MAX_PORT, ServeSettings, UpSettings
from sharemesh.serve.storage.broker_connection import connect_brokers
from sharemesh.serve.storage.own_topics import OwnTopics
from sharemesh.serve.supervise.child_process import (
    ManagedProcess,
    ProcessPlan,
    ProcessState,
    ProcessStatus,
)
from sharemesh.serve.supervise.child_protocol import role_command
from sharemesh.serve.supervise.data_directory import (
    RUN_FILE,
    DirectoryLock,
    InitRollback,
    close_to_others,
    make_writable,
    unusable,
)
from sharemesh.serve.supervise.etcd_process import EtcdPlace, place_etcd
from sharemesh.serve.supervise.guard import revoke_leases
from sharemesh.v1.admin_pb2 import DescribeClusterRequest

ETCD = "etcd"
STOP_ORDER: tuple[tuple[Role, ...], ...] = (
    (Role.CONTROLLER,),
    (Role.SHARE_LEADER, Role.GROUP_COORDINATOR),
    (Role.SHARE_COORDINATOR,),
)
"""Writers stop before the processes they write to: share leaders flush state, coordinators last."""

GIVEN_ETCD_TIMEOUT_MS = 5_000
LED_TIMEOUT_MS = 10_000
LED_POLL_MS = 50
_UNDONE = frozenset({ExitCode.PORT_IN_USE, ExitCode.STORAGE_TAKEN})

_log = logging.getLogger(__name__)


class LocalCluster:
    """Supervises etcd and all role processes of one data directory.

    Args:
        serve: Settings of every role process; role, node id, ports and etcd are set here.
        up: How many processes, and where.
        clock: Time for back-off.
        on_change: Called after each change of a process.
    """

    def __init__(
        self,
        serve: ServeSettings,
        up: UpSettings,
        *,
        clock: Clock,
        on_change: Callable[[ProcessStatus], None] | None = None,
    ) -> None:
        self._serve = serve
        self._up = up
        self._clock = clock
        self._on_change = on_change
        self._kafka = kafka_addresses(up)
        if self._kafka:
            check_kafka_listener(replace(serve, kafka_listener_port=0))
        else:
            check_kafka_listener_is_on(serve)
        self._directory = serve.data_directory.resolve()
        self._lock = DirectoryLock(self._directory)
        self._children: dict[tuple[str, int], ManagedProcess] = {}
        self._coordination: Coordination | None = None
        self._first_start: InitRollback | None = None
        self._etcd: EtcdPlace | None = None
        self._endpoints: tuple[str, ...] = serve.etcd_endpoints
        self._changed = asyncio.Event()
        self._hurried = False

    @property
    def directory(self) -> Path:
        """The data directory, absolute."""
        return self._directory

    @property
    def logs(self) -> Path:
        """The directory of what each process says, absolute."""
        return self._directory / LOGS

    @property
    def processes(self) -> tuple[ProcessStatus, ...]:
        """All processes, etcd first; live objects that change."""
        return tuple(child.status for child in self._children.values())

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """Addresses of the ready role processes."""
        return tuple(
            status.address
            for status in self.processes
            if status.role != ETCD and status.address and status.state is ProcessState.READY
        )

    @property
    def kafka_bootstrap(self) -> tuple[str, ...]:
        """Addresses of the ready processes for clients of Kafka, share leaders first."""
        return tuple(
            status.kafka
            for role in KAFKA_ROLES
            for status in self.processes
            if status.role == role and status.kafka and status.state is ProcessState.READY
        )

    @property
    def etcd_endpoints(self) -> tuple[str, ...]:
        """Where etcd is, ours or the given one."""
        return self._endpoints

    def status(self, role: str, index: int = 0) -> ProcessStatus:
        """Return one process.

        Raises:
            KeyError: There is none of this role and index.
        """
        return self._children[(str(role), index)].status

    def kill(self, role: str, index: int, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to one process and return the pid it had; it will be restarted.

        Raises:
            KeyError: There is none of this role and index.
            ProcessLookupError: It is not running just now.
        """
        return self._children[(str(role), index)].signal(number)

    async def start(self) -> None:
        """Start everything and return when all processes are ready.

        Raises:
            StartError: With one sentence; what had been started is stopped again. If a port was
                taken, or the own topics are another cluster's, a directory that was empty is empty
                again; not once topics know the etcd in it as their owner (KTP-20).
        """
        self._first_start = InitRollback(self._directory)
        make_writable(self._directory)
        self._lock.take()
        try:
            await self._claim_directory()
            await self._start_etcd()
            await self._start_roles()
            await self._until_ready()
            await self._until_led()
        except BaseException as error:
            undo = isinstance(error, StartError) and error.code in _UNDONE
            await self.stop(fast=True, undo=self._first_start if undo else None)
            raise

    async def stop(self, *, fast: bool = False, undo: InitRollback | None = None) -> None:
        """Stop all roles in the order that loses least, then etcd. Repeating it is fine."""
        if fast:
            self.hurry()
        for roles in STOP_ORDER:
            await self._stop([child for child in self._roles() if child.status.role in roles])
        coordination, self._coordination = self._coordination, None
        if coordination is not None:
            await coordination.close()
        await self._stop([child for key, child in self._children.items() if key[0] == ETCD])
        self._write_run_file()
        if undo is not None:
            undo.undo()
        self._lock.release()

    def hurry(self) -> None:
        """Make a stop that is under way, or comes, kill instead of drain."""
        self._hurried = True
        for child in self._roles():
            child.kill()

    async def wait_for(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait until a condition over ``processes`` holds; return whether it does."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True

    def _roles(self) -> list[ManagedProcess]:
        return [child for key, child in self._children.items() if key[0] != ETCD]

    async def _stop(self, children: Sequence[ManagedProcess]) -> None:
        timeout_ms = 0 if self._hurried else self._up.stop_timeout_ms
        etcd_only = all(child.status.role == ETCD for child in children)
        if etcd_only:  # it has nothing to drain, but its files like a proper end
            timeout_ms = max(timeout_ms, 2_000)
        await asyncio.gather(*(child.stop(timeout_ms) for child in children))

    async def _claim_directory(self) -> None:
        disk = SystemDisk(self._directory, threads=1)
        try:
            await open_data_directory(
                disk,
                cluster_id=self._serve.cluster_id,
                group_shards=self._serve.group_shards,
                state_shards=self._serve.state_shards,
            )
            close_to_others(self._directory)
            for made in ((self._directory / RUN_FILE).parent, self.logs):
                made.mkdir(0o700, exist_ok=True)
            self._serve = with_secret(self._serve, self._directory, SystemRandom())
        except DataDirectoryError as error:
            raise StartError(ExitCode.OTHER_CLUSTER, f"{self._directory}: {error}") from error
        except OSError as error:
            raise unusable(self._directory, error) from error
        finally:
            disk.close()

    async def _start_etcd(self) -> None:
        if not self._endpoints:
            self._etcd = place_etcd(
                self._directory / "etcd", self._up.etcd_port, self._up.etcd_program
            )
            self._endpoints = (self._etcd.endpoint,)
            status = ProcessStatus(ETCD, ETCD, 0, host="127.0.0.1", port=self._etcd.client_port)
            self._add(
                status,
                ProcessPlan(
                    command=lambda _status, _descriptor: self._etcd_command(),
                    log=self.logs / "etcd.log",
                    ready=lambda: self._etcd_answers(self._up.start_timeout_ms),
                ),
            )
        self._coordination = connect_etcd(
            self._serve, self._endpoints, clock=self._clock, rng=SystemRandom()
        )
        await self._etcd_answers(self._up.start_timeout_ms if self._etcd else GIVEN_ETCD_TIMEOUT_MS)
        await self._create_cluster(self._coordination)

    async def _create_cluster(self, coordination: Coordination) -> None:
        """Create the cluster with the file's settings, or bring its settings up to the file."""
        try:
            record = await create_cluster(coordination, self._serve, self._clock, overwrite=True)
            if self._serve.on_kafka:
                await self._create_topics(coordination, record)
        except CoordinationError as error:
            raise StartError(ExitCode.COORDINATION_UNREACHABLE, str(error)) from error

    async def _create_topics(self, coordination: Coordination, record: ClusterRecord) -> None:
        """Make or check the cluster's own topics, so that a mistake is said once, not by each."""
        rng = SystemRandom()
        brokers = connect_brokers(self._serve, self._clock, rng)
        try:
            await OwnTopics(brokers, coordination, self._serve, self._clock, rng).ready(record)
            self._first_start = None
        finally:
            await brokers.close()

    def _etcd_command(self) -> Sequence[str]:
        assert self._etcd is not None
        return self._etcd.command()

    async def _etcd_answers(self, timeout_ms: int) -> None:
        coordination = self._coordination
        if coordination is not None:
            await reach(coordination, self._clock, self._endpoints, timeout_ms=timeout_ms)

    async def _start_roles(self) -> None:
        number = 0
        for role in Role:
            for index in range(self._up.count(role)):
                port = self._up.base_port + number if self._up.base_port else 0
                number += 1
                name = f"{role}-{index}"
                status = ProcessStatus(name, str(role), index, node_id=name, port=port)
                self._add(status, self._role_plan(role, status, fixed=bool(port)))

    def _role_plan(self, role: Role, status: ProcessStatus, *, fixed: bool) -> ProcessPlan:
        def command(now: ProcessStatus, descriptor: int) -> Sequence[str]:
            if not fixed and now.exit_code == ExitCode.PORT_IN_USE:
                now.port = 0
                now.kafka = ""
            host, kafka_port = self._kafka.get(status.name, ("", -1))
            if kafka_port == 0 and now.kafka:  # as before the restart
                kafka_port = int(now.kafka.rpartition(":")[2])
            return role_command(
                replace(self._serve, kafka_listener_host=host, kafka_listener_port=kafka_port),
                role=role,
                node_id=status.name,
                host=self._up.host,
                port=now.port,
                etcd_endpoints=self._endpoints,
                descriptor=descriptor,
            )

        return ProcessPlan(
            command=command,
            log=self.logs / f"{status.name}.log",
            ended=self._revoke,
        )

    def _add(self, status: ProcessStatus, plan: ProcessPlan) -> None:
        child = ManagedProcess(status, plan, self._clock, self._note)
        self._children[(status.role, status.index)] = child
        child.start()

    async def _revoke(self, status: ProcessStatus) -> None:
        """End the leases of a process that died, so that others need not wait for them."""
        if self._coordination is not None:
            await revoke_leases(self._coordination, status)

    async def _until_ready(self) -> None:
        ready = await self.wait_for(
            lambda: (
                all(_settled(status) for status in self.processes)
                or any(map(self._port_taken, self.processes))
            ),
            self._up.start_timeout_ms,
        )
        for status in self.processes:
            if self._port_taken(status):
                raise StartError(
                    ExitCode.PORT_IN_USE,
                    f"{status.message or f'port {status.port} is in use'} (the ports of `up` begin "
                    f"at base_port = {self._up.base_port}; 0 takes free ones)",
                )
            if status.state is ProcessState.FAILED:
                raise StartError(
                    ExitCode(status.exit_code or ExitCode.FAILED),
                    status.message or f"{status.name} failed; see {self._log_of(status)}",
                )
        if not ready:
            late = [status.name for status in self.processes if not _settled(status)]
            raise StartError(
                ExitCode.FAILED,
                f"not ready after {self._up.start_timeout_ms} ms: {', '.join(late)}; see "
                f"{self.logs}",
            )

    async def _until_led(self) -> None:
        """Wait, bounded, until every shard has a coordinator and a controller is elected."""
        headers = Identity(self._serve, SystemRandom(), self._clock).headers
        caller = GrpcCaller(self._clock, tls=tls_files(self._serve), headers=headers)
        deadline_ms = self._clock.now_ms() + LED_TIMEOUT_MS
        try:
            while self._clock.now_ms() < deadline_ms:
                try:
                    cluster = await caller.call(
                        DESCRIBE_CLUSTER, DescribeClusterRequest(), to=self.bootstrap[0]
                    )
                except CallFailedError as error:
                    _log.debug("cluster not described yet", extra={"error": error})
                else:
                    if cluster.controller_id and all(each.leader_id for each in cluster.shards):
                        return
                await self._clock.sleep_ms(LED_POLL_MS)
        finally:
            await caller.close()
        _log.warning("some shards have no coordinator yet; see sharemesh cluster")

    def _port_taken(self, status: ProcessStatus) -> bool:
        return (
            status.state is not ProcessState.READY
            and self._up.base_port > 0
            and status.exit_code == ExitCode.PORT_IN_USE
        )

    def _log_of(self, status: ProcessStatus) -> Path:
        return self.logs / f"{status.name}.log"

    def _note(self, status: ProcessStatus) -> None:
        self._changed.set()
        self._write_run_file()
        if self._on_change is not None:
            self._on_change(status)

    def _write_run_file(self) -> None:
        """Tell tools and tests where everything is; replaced as a whole."""
        if not self._lock.held:
            return  # the directory is another cluster's, and so is its run file
        target = self._directory / RUN_FILE
        if not target.parent.exists():
            return
        content = {
            "cluster_id": self._serve.cluster_id,
            "supervisor_pid": os.getpid(),
            "python": sys.executable,
            "bootstrap": list(self.bootstrap),
            "kafka_bootstrap": list(self.kafka_bootstrap),
            "etcd_endpoints": list(self._endpoints),
            "processes": [
                {
                    "name": status.name,
                    "role": status.role,
                    "index": status.index,
                    "node_id": status.node_id,
                    "state": str(status.state),
                    "pid": status.pid,
                    "address": status.address,
                    "restarts": status.restarts,
                }
                for status in self.processes
            ],
        }
        temporary = target.with_suffix(".tmp")
        try:
            temporary.write_text(json.dumps(content, indent=1) + "\n")
            temporary.replace(target)
        except OSError as error:  # a full disk must not end the supervision
            _log.warning("run file not written", extra={"file": str(target), "error": str(error)})


def kafka_addresses(up: UpSettings) -> dict[str, tuple[str, int]]:
    """Return host and port for clients of Kafka of each process that has them.

    Raises:
        StartError: SETTINGS; the setting is not HOST:PORT.
    """
    if not up.kafka_listener:
        return {}
    host, _, text = up.kafka_listener.rpartition(":")
    names = [f"{role}-{index}" for role in KAFKA_ROLES for index in range(up.count(role))]
    port = int(text) if text.isdecimal() else -1
    if not host or not 0 <= port <= MAX_PORT - len(names):
        raise StartError(
            ExitCode.SETTINGS,
            f"setting kafka_listener: {up.kafka_listener!r} is not HOST:PORT, for example "
            "127.0.0.1:9092",
        )
    return {
        name: (host.strip("[]"), port + number if port else 0) for number, name in enumerate(names)
    }


def _settled(status: ProcessStatus) -> bool:
    return status.state in {ProcessState.READY, ProcessState.FAILED}
