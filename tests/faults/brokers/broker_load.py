"""A mesh under steady load on real brokers: what every trial of part kafka stands on.

Records come straight from Kafka's own producer; what is delivered and what was confirmed is in
journals; at the end they are judged against the state topic, which is read from its first batch.
"""

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from tests.etcd_server import EtcdServer
from tests.faults.brokers import rights
from tests.faults.brokers.broker_admin import BrokerAdmin
from tests.faults.brokers.frame_proxy import FrameProxy
from tests.faults.namespaces import Namespaces
from tests.faults.steady import Size, SteadyLoad, steady_load
from tests.faults.trials import ROOT, Outcome
from tests.free_ports import free_port
from tests.history.journal import now_ms
from tests.kafka.real_broker import QUICK, RealBrokers, real_brokers
from tests.mesh.kafka_mesh import KafkaMesh

SESSION_MS = 3_000
GOAL_MS = SESSION_MS + 2_000.0
"""Time to the next delivery: the session time-out of the brokers, and two seconds."""

SIZE = Size(partitions=12, per_second=300, workers=3, hold_ms=500, held_min=30, drain_held_min=30)
UP = UpSettings(base_port=0, share_leaders=2, share_coordinators=2, group_coordinators=2)
RECOVERY_S = 90
GRACE_MS = 50  # answers that were on their way
LOUD = ("Traceback (most recent call last)", "CorruptLogError", "were lost", "records are missing")
TOLD_MAX = 5

Trial = Callable[["BrokerLoad"], Awaitable[tuple[float, str]]]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a series stands on.

    Attributes:
        brokers: How many; topics have as many replicas, three at most.
        proxied: Frames between Sharemesh and the brokers pass a proxy.
        guarded: Sharemesh logs in, and may do what ACLs allow it.
        disk_mib: The last broker has a disk of its own of that size; 0: it has not.
        apart: Each broker is in a network namespace of its own.
        size: The load.
    """

    brokers: int = 3
    proxied: bool = False
    guarded: bool = False
    disk_mib: int = 0
    apart: bool = False
    size: Size = SIZE


THREE_BROKERS = Scene()


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a trial may do things to."""

    steady: SteadyLoad
    brokers: RealBrokers
    admin: BrokerAdmin
    etcd: EtcdServer
    proxy: FrameProxy | None
    net: Namespaces | None
    rng: random.Random
    parts: list[str] = field(default_factory=list)
    """What each wait for new deliveries was made of."""

    excused: list[str] = field(default_factory=list)
    """Words of lines that processes may say: topics of which a trial loses records."""

    @property
    def topic(self) -> str:
        """The topic of the records."""
        return self.steady.loaded.load.topic

    @property
    def state_topic(self) -> str:
        """The topic of the share states."""
        return f"{self.steady.loaded.load.settings.own_topic_prefix}state"

    @property
    def mesh(self) -> KafkaMesh:
        """The processes of Sharemesh, and the producer."""
        assert isinstance(self.steady.loaded, KafkaMesh)
        return self.steady.loaded

    def marks(self) -> dict[str, int]:
        """Return the newest offset of each partition that is confirmed by now."""
        return dict(self.mesh.newest)

    async def until_fresh(
        self, at_ms: float, marks: Mapping[str, int], timeout_s: float = RECOVERY_S
    ) -> float:
        """Wait until each partition delivered what was produced later, and had acks confirmed.

        Return ms since a time; what was fetched, or confirmed to the producer, before it does not
        help.
        """
        tail = self.steady.tail

        def done_ms(name: str) -> float | None:
            found = tail.partitions[name]
            mark = marks.get(name, -1)
            fresh = [s.time_ms for s in found.deliveries if s.time_ms > at_ms and s.last > mark]
            confirmed = [t for t in found.confirmed_ms if t > at_ms + GRACE_MS]
            return max(min(fresh), min(confirmed)) if fresh and confirmed else None

        took_ms = await self.steady.until_each(
            self.steady.names, done_ms, at_ms, timeout_s, "each delivers and confirms what is new"
        )
        self._note_parts(at_ms, marks)
        return took_ms

    def _note_parts(self, at_ms: float, marks: Mapping[str, int]) -> None:
        """Say what the slowest partitions waited for: the producer, a delivery, a state write."""
        parts: dict[str, dict[str, float]] = {"written": {}, "delivered": {}, "confirmed": {}}
        for name in self.steady.names:
            found = self.steady.tail.partitions[name]
            fresh = (s.time_ms for s in found.deliveries if s.last > marks.get(name, -1))
            confirmed = (time_ms for time_ms in found.confirmed_ms if time_ms > at_ms + GRACE_MS)
            times = (self.mesh.written_ms[name], fresh, confirmed)
            for part, each in zip(parts.values(), times, strict=True):
                later = [time_ms - at_ms for time_ms in each if time_ms > at_ms]
                part[name] = min(later, default=float("inf"))
        slowest = {part: max(times, key=times.__getitem__) for part, times in parts.items()}
        told = ", ".join(f"{part} {parts[part][name]:.0f} {name}" for part, name in slowest.items())
        self.parts.append(f"({told} ms)")

    async def settled(self) -> None:
        """Wait until brokers and mesh are whole again and everything flows."""
        if not await self.admin.healthy(len(self.brokers.processes)):
            self.steady.violations.append("the brokers did not become whole again within 90 s")
        await self.steady.flowing()


async def series(trials: Sequence[Trial], seed: int, scene: Scene) -> Outcome:
    """Run trials one after the other on one mesh on new brokers; judge the history of all."""
    times: list[float] = []
    notes: list[str] = []
    rng = random.Random(seed)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sharemesh-kafka-")))
        etcd = EtcdServer(folder / "etcd")
        await etcd.start()
        stack.callback(etcd.stop)
        between = [free_port() for _ in range(scene.brokers)] if scene.proxied else []
        net = stack.enter_context(Namespaces()) if scene.apart else None
        places = [] if net is None else [net.add() for _ in range(scene.brokers)]
        kafka = stack.enter_context(_brokers(folder / "brokers", scene, between, places))
        proxy = None
        if scene.proxied:
            proxy = FrameProxy(random.Random(seed), between, kafka.ports["PROXIED"])
            await stack.enter_async_context(proxy)
        admin = BrokerAdmin(kafka.bootstrap)
        await admin.healthy(scene.brokers)
        serve = ServeSettings(
            data_directory=folder / "data",
            cluster_id="faults",
            etcd_endpoints=(etcd.endpoint,),
            storage="kafka",
            kafka_bootstrap_servers=tuple(kafka.addresses(_listener(scene)).split(",")),
            kafka_single_replica=scene.brokers == 1,
            state_shards=6,
            group_shards=3,
        )
        if scene.guarded:
            serve = await asyncio.to_thread(rights.logged_in, serve, folder, kafka.bootstrap)
        mesh = partial(
            KafkaMesh,
            producers=kafka.bootstrap,
            replicas=min(scene.brokers, 3),
            kept=ROOT / "build" / "faults" / f"kafka-{trials[0].__name__}-{seed}",
        )
        async with steady_load(scene.size, seed, serve=serve, up=UP, mesh=mesh) as steady:
            load = BrokerLoad(steady, kafka, admin, etcd, proxy, net, rng)
            for trial in trials:
                await load.settled()
                at_ms = now_ms()
                took_ms, note = await trial(load)
                times.append(took_ms)
                parts = " ".join(load.parts)
                load.parts.clear()
                notes.append(f"{note} {took_ms:.0f} of {now_ms() - at_ms:.0f} ms {parts}")
            await load.settled()
            if proxy is not None:
                await proxy.settled()
                notes.append(str(dict(proxy.happened)))
            logs = steady.loaded.cluster.logs
            steady.violations += await asyncio.to_thread(loud, logs, load.excused)
    notes.append(f"{steady.late} acknowledgements came too late to change anything")
    if steady.repeated:
        notes.append(f"Kafka's producer wrote {steady.repeated} records once more")
    return Outcome(tuple(steady.violations), tuple(times), "; ".join(notes), trials=len(trials))


def _listener(scene: Scene) -> str:
    if scene.guarded:
        return rights.LISTENER
    return "PROXIED" if scene.proxied else "CLIENT"


def _brokers(
    folder: Path, scene: Scene, between: Sequence[int], places: Sequence[tuple[str, str]]
) -> AbstractContextManager[RealBrokers]:
    settings: dict[str, object] = {**QUICK, "broker.session.timeout.ms": SESSION_MS}
    if scene.guarded:
        settings |= rights.BROKER_SETTINGS
    listener = _listener(scene)
    return real_brokers(
        folder,
        scene.brokers,
        settings=settings,
        listeners=() if listener == "CLIENT" else (listener,),
        advertised={listener: between} if scene.proxied else {},
        disk_mib=scene.disk_mib,
        places=places,
    )


def loud(logs: Path, excused: Sequence[str] = ()) -> list[str]:
    """Return what processes said that none says in a trial that loses nothing."""
    found = [
        f"{path.name}: {line.strip()[:400]}"
        for path in sorted(logs.glob("*.log"))
        for line in path.read_text(errors="replace").splitlines()
        if any(words in line for words in LOUD) and not any(words in line for words in excused)
    ]
    return found[:TOLD_MAX] + ([f"{len(found)} such lines in all"] if found else [])
