"""How the process itself fares: metrics (loop lag, memory, processor, lease) and readiness."""

import asyncio
import resource
from collections.abc import Iterator

from sharemesh.cluster.membership import ClusterMember
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.rpc.standard_services import READINESS, Health
from sharemesh.serve.process.memory import resident_bytes
from sharemesh.tasks import cancel_and_wait
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Observation
from sharemesh.telemetry.telemetry import Telemetry

LAG_PROBE_MS = 250


class ProcessProbe:
    """Registers the metrics that every role has, and measures the loop's lag."""

    def __init__(self, telemetry: Telemetry, clock: Clock, view: ClusterView) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._view = view
        self._task: asyncio.Task[None] | None = None

    def start(self, member: ClusterMember) -> None:
        """Register, and begin to measure."""
        registry = self._telemetry.registry

        def margin() -> Iterator[Observation]:
            session = member.session
            yield (), 0.0 if session is None else session.trusted_ms / 1_000

        registry.observe(names.SESSION_MARGIN, margin)
        registry.observe(names.MEMORY, _memory_bytes)
        registry.observe(names.CPU, _cpu_s)
        registry.observe(names.UNLED_PARTITIONS, self._unled)
        self._task = asyncio.get_running_loop().create_task(self._measure(), name="loop lag")

    async def close(self) -> None:
        """Stop measuring."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _measure(self) -> None:
        lag = self._telemetry.registry.histogram(names.LOOP_LAG)
        idle = self._telemetry.registry.histogram(names.LOOP_IDLE)
        busy_s = _thread_cpu_s()
        while True:
            began_ms = self._clock.now_ms()
            await self._clock.sleep_ms(LAG_PROBE_MS)
            passed_ms = max(1, self._clock.now_ms() - began_ms)
            lag.record(max(0, passed_ms - LAG_PROBE_MS) / 1_000)
            before_s, busy_s = busy_s, _thread_cpu_s()
            idle.record(idle_percent(busy_s - before_s, passed_ms))

    def _unled(self) -> Iterator[Observation]:
        yield (), len(self._view.unassigned())


def idle_percent(busy_s: float, passed_ms: int) -> float:
    """Return how much of the time a thread did not compute, 0 to 100."""
    return min(100.0, max(0.0, 100 - 100_000 * busy_s / passed_ms))


def _thread_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_utime + used.ru_stime


def _memory_bytes() -> Iterator[Observation]:
    yield (), resident_bytes()


def _cpu_s() -> Iterator[Observation]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield (), used.ru_utime + used.ru_stime


class Readiness:
    """Switches the health service's ``readiness``; liveness never depends on the store."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._tasks: dict[asyncio.Task[None], None] = {}

    def follow(self, member: ClusterMember) -> None:
        """Follow a member that has not started yet."""
        member.on_registered(self._registered)
        member.on_lost(self._lost)

    async def close(self) -> None:
        """Wait for pending updates of readiness."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _registered(self) -> None:
        task = asyncio.ensure_future(self._health.set_serving(READINESS, serving=True))
        self._tasks[task] = None
        task.add_done_callback(lambda task: self._tasks.pop(task, None))

    async def _lost(self) -> None:
        await self._health.set_serving(READINESS, serving=False)
