"""Part hostile of `make faults`: 20,000 malformed or hostile RPCs over all services."""

import asyncio
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from sharemesh.methods import METHODS, Method, StreamingKind
from sharemesh.ports.cluster import Role
from tests.faults.abuse.run import NAMES, abused
from tests.faults.crowds import crowds_in_plain_text, crowds_with_tls, more_than_files
from tests.faults.hostile_bytes import Enemy
from tests.faults.hostile_calls import silent_streams
from tests.faults.node import Node, Place
from tests.faults.records import RawProducer, consume
from tests.faults.trials import Fault, Kinds, Outcome

RPCS = 20_000
CALLERS = 24
WARM_UP_SHARE = 0.1
GROWTH_BYTES_MAX = 50 << 20
OVERSIZE_BYTES = (64 << 20) + 1024
OVERSIZE_EVERY = 1_500
STRANGE_EVERY = 50
CALL_TIMEOUT_S = 20.0
WAIT_TIMEOUT_S = 0.5
MAY_WAIT = ("ShareLeader/ShareFetch", "RecordLog/Fetch", "GroupCoordinator/ShareGroupHeartbeat")
"""Requests that may ask for a long wait; our own deadline ends it."""

WRITE_FAILED = "Internal error from Core"
"""What grpc.aio says on this side of a stream that the server ended while we wrote."""

STREAM_READ_S = 0.05
STALL_LOOK_S = 0.01
LOG_BYTES_MAX = 20 << 20
CLIENT_LEFT = 'event="ExecuteBatchError raised in core by servicer method'
"""What grpc itself logs when the client was gone before its answer; no handler failed."""

RSS_RE = re.compile(r"VmRSS:\s+(\d+) kB")
SERVICES = {
    "GroupCoordinator": Role.GROUP_COORDINATOR,
    "ShareLeader": Role.SHARE_LEADER,
    "RecordLog": Role.SHARE_LEADER,
    "ShareCoordinator": Role.SHARE_COORDINATOR,
    "Admin": Role.CONTROLLER,
}
PROPER = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.CANCELLED,
}


@dataclass(slots=True)
class Attack:
    """One cluster under attack."""

    place: Place
    enemy: Enemy
    rng: random.Random
    channels: dict[str, grpc.aio.Channel]
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    stalled_s: float = 0.0

    def node_for(self, method: Method[Message, Message]) -> str:
        """Return who offers the method, now and then somebody else."""
        if self.rng.random() < 0.03:
            return self.rng.choice(list(self.channels))
        role = SERVICES[method.name.partition("/")[0]]
        if role is Role.CONTROLLER:  # every process offers Admin
            return self.rng.choice(list(self.channels))
        return str(role)

    async def watch_stalls(self) -> None:
        """Sum up how long our own loop stood still, making or reading large messages."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(STALL_LOOK_S)
            self.stalled_s += max(0.0, time.monotonic() - began - STALL_LOOK_S)

    async def call(self, number: int) -> None:
        """Send one request and judge the answer."""
        method = self.rng.choice(METHODS)
        node = self.node_for(method)
        if number % OVERSIZE_EVERY == OVERSIZE_EVERY - 1:
            await self._unary(method, node, bytes(OVERSIZE_BYTES))
        elif number % STRANGE_EVERY == 0:
            await self._strange(node)
        elif method.kind is StreamingKind.STREAM:
            await self._stream(method, node)
        else:
            await self._unary(method, node, self.enemy.request(method.request))

    async def _unary(self, method: Method[Message, Message], node: str, data: bytes) -> None:
        invoke: Any = self.channels[node].unary_unary(f"/sharemesh.v1.{method.name}")
        timeout_s = WAIT_TIMEOUT_S if method.name in MAY_WAIT else CALL_TIMEOUT_S
        began = time.monotonic() - self.stalled_s
        try:
            answer = await invoke(data, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            self._judge(method, data, error.code(), error.details() or "")
            return
        ended = time.monotonic()
        if ended - self.stalled_s - began > self.slowest[0]:
            await asyncio.sleep(2 * STALL_LOOK_S)  # a stall that has just ended is counted first
        self._timed(method, len(data), ended - self.stalled_s - began)
        self.seen["OK"] += 1
        try:
            method.response.FromString(answer)
        except DecodeError:
            self.wrong.append(f"{method.name}: the answer is not a response")

    def _timed(self, method: Method[Message, Message], size: int, took_s: float) -> None:
        self.slowest = max(self.slowest, (took_s, f"{method.name} of {size} bytes"))

    async def _stream(self, method: Method[Message, Message], node: str) -> None:
        """Send some messages, read a little, and leave in one of several ways."""
        invoke: Any = self.channels[node].stream_stream(f"/sharemesh.v1.{method.name}")
        call = invoke()
        sent = b""
        try:
            for _ in range(self.rng.choice((0, 1, 1, 2, 10))):
                sent = self.enemy.request(method.request)
                await call.write(sent)
            if self.rng.random() < 0.5:
                await call.done_writing()
            async with asyncio.timeout(STREAM_READ_S):
                while await call.read() is not grpc.aio.EOF:
                    pass
        except (TimeoutError, asyncio.InvalidStateError):
            pass
        except grpc.aio.AioRpcError as error:
            self._judge(method, sent, error.code(), error.details() or "")
            return
        finally:
            if not call.done():
                call.cancel()
        if call.done():
            self._judge(method, sent, await call.code(), await call.details() or "")

    async def _strange(self, node: str) -> None:
        """What is no RPC of ours: an unknown method, or bytes that are not HTTP/2."""
        if self.rng.random() < 0.5:
            invoke: Any = self.channels[node].unary_unary("/sharemesh.v1.Admin/" + "x" * 500)
            try:
                await invoke(b"", timeout=CALL_TIMEOUT_S)
            except grpc.aio.AioRpcError as error:
                self.seen[error.code().name] += 1
                if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    self.wrong.append(f"an unknown method: {error.code()} {error.details()}")
            return
        host, _, port = self.place.nodes[node].address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if self.rng.random() < 0.5 else b""
        writer.write(preface + self.rng.randbytes(self.rng.randrange(1, 2_000)))
        writer.transport.abort()
        self.seen["no HTTP/2"] += 1

    def _judge(
        self, method: Method[Message, Message], data: bytes, code: grpc.StatusCode, details: str
    ) -> None:
        if code is grpc.StatusCode.INTERNAL and details == WRITE_FAILED:
            self.seen["stream ended under a write"] += 1
            return
        self.seen[code.name] += 1
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and method.name in MAY_WAIT:
            return
        if code not in PROPER or (code is not grpc.StatusCode.OK and not details):
            shown = data[:200].hex() + ("..." if len(data) > 200 else "")
            self.wrong.append(f"{method.name}: {code.name} {details!r} for {shown}")


async def hostile(number: int, seed: int, *, rpcs: int = RPCS) -> Outcome:
    """No crash, a proper error each time, no traceback in a log, bounded memory."""
    rng = random.Random(seed)
    async with Place() as place:
        for role in (Role.CONTROLLER, Role.SHARE_COORDINATOR, Role.GROUP_COORDINATOR,
                     Role.SHARE_LEADER):  # fmt: skip
            await place.node(str(role), role=str(role))
        topic_id = await place.create_topic("t", 2)
        pids = {name: node.pid for name, node in place.nodes.items()}
        wrong = await _works(place, rng, "before")
        options = [("grpc.max_send_message_length", -1)]
        channels = {
            name: grpc.aio.insecure_channel(node.address, options=options)
            for name, node in place.nodes.items()
        }
        attack = Attack(place, Enemy(rng, [topic_id], ["t", "before"]), rng, channels)
        watching = asyncio.ensure_future(attack.watch_stalls())
        try:
            warm = int(rpcs * WARM_UP_SHARE)
            await _send(attack, 0, warm)
            before = {name: _rss(node) for name, node in place.nodes.items()}
            await _send(attack, warm, rpcs)
        finally:
            watching.cancel()
            await asyncio.gather(*(channel.close() for channel in channels.values()))
        grown = {name: _rss(node) - before[name] for name, node in place.nodes.items()}
        wrong += attack.wrong
        wrong += [
            f"{name} grew by {growth >> 20} MiB" for name, growth in grown.items()
            if growth > GROWTH_BYTES_MAX
        ]  # fmt: skip
        for name, node in place.nodes.items():
            if not node.alive or node.pid != pids[name]:
                wrong.append(f"{name} crashed")
            wrong += _log_problems(node.log)
        await place.create_topic("t2", 2)
        wrong += await _works(place, rng, "after", topic="t2")
    counts = ", ".join(f"{count} {name}" for name, count in attack.seen.most_common())
    growth = ", ".join(f"{name} {size >> 20} MiB" for name, size in grown.items())
    return Outcome(tuple(wrong), (), f"{counts}; growth: {growth}; "
                   f"slowest answer {attack.slowest[0]:.2f} s, {attack.slowest[1]}")  # fmt: skip


async def _send(attack: Attack, first: int, end: int) -> None:
    numbers = iter(range(first, end))

    async def caller() -> None:
        for number in numbers:
            await attack.call(number)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


async def _works(place: Place, rng: random.Random, group: str, topic: str = "t") -> list[str]:
    """Produce and consume as a good client does."""
    producer = RawProducer(place, topic, rng, name=group)
    address = place.nodes[str(Role.SHARE_LEADER)].address
    batches = [await producer.retry(address, partition) for partition in range(2)]
    wanted = {p: batch.base_offset + len(batch.values) for p, batch in enumerate(batches)}
    seen = await consume(place, group, topic, wanted)
    values = {value for got in seen.got.values() for value in got.values()}
    missing = [v for batch in batches for v in batch.values if v not in values]
    return [f"{group}: {len(missing)} records were not delivered"] if missing else []


def _rss(node: Node) -> int:
    found = RSS_RE.search(Path(f"/proc/{node.pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def _log_problems(log: Path) -> list[str]:
    """Return what a log should not hold."""
    wrong = []
    if log.stat().st_size > LOG_BYTES_MAX:
        wrong.append(f"{log.name} has {log.stat().st_size} bytes: a flood")
    lines = [
        line
        for line in log.read_text().splitlines()
        if "Traceback" in line and CLIENT_LEFT not in line
    ]
    wrong += [f"{log.name}: {line[-1_500:]}" for line in lines[:3]]
    return wrong


async def some_hostile(number: int, seed: int) -> Outcome:
    """The same with fewer requests, and no more memory."""
    return await hostile(number, seed, rpcs=1_500)


FAULTS = (
    Fault("hostile", 1, hostile),
    Fault("crowds", 1, crowds_in_plain_text),
    Fault("crowds_with_tls", 1, crowds_with_tls),
    Fault("more_than_files", 1, more_than_files),
    Fault("silent_streams", 1, silent_streams),
    Kinds(NAMES, abused),
)
