"""Stands before servers of Kafka's protocol and handles chosen frames badly: late, cut, lost.

Servers advertise its ports on one listener; whoever is told of that listener talks through it, and
everybody else does not.
"""

import asyncio
import contextlib
import random
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

LIMIT = 4 * 1024 * 1024
LOCALHOST = "127.0.0.1"
PRODUCE_KEY, FETCH_KEY = 0, 1
LATE_TRY_S = 8


class Mishap(Enum):
    """What may happen to a request or to its answer."""

    LATE = "late"  # no answer; the request reaches a broker after its sender gave up, or later
    DOUBLED = "doubled"  # it is sent once more, by another connection, soon after
    ANSWER_LOST = "answer lost"  # done, and the connection is gone instead of the answer
    ANSWER_LATE = "answer late"  # done; the answer and all behind it come late
    REQUEST_CUT = "request cut"  # half of it reaches the broker, then both connections end
    ANSWER_CUT = "answer cut"  # half of the answer comes, then the connection ends
    ANSWER_HALVED = "answer halved"  # half of the answer comes, and the rest of it late


WRITES_ONLY = frozenset({Mishap.LATE, Mishap.DOUBLED})
CUT_SHORT = frozenset({Mishap.ANSWER_LOST, Mishap.ANSWER_CUT})
HALVED = frozenset({Mishap.ANSWER_CUT, Mishap.ANSWER_HALVED})
Seen = Callable[[int, bytes, bytes, bool], None]
"""Hears of each answer: the number of its server, request, answer, whether it is passed whole."""


class FrameProxy:
    """One server for each broker; ``mishaps`` says what may happen, ``share`` how often.

    Args:
        rng: Chooses.
        ports: Where to listen, one for each broker.
        targets: The ports of the brokers.
        host: Where to listen.
        seen: Hears of each answer.
    """

    def __init__(
        self,
        rng: random.Random,
        ports: Sequence[int],
        targets: Sequence[int],
        *,
        host: str = LOCALHOST,
        seen: Seen | None = None,
    ) -> None:
        self._rng = rng
        self._ports = ports
        self._targets = targets
        self._host = host
        self._relays: dict[_Relay, None] = {}
        self.seen = seen
        self._servers: list[asyncio.Server] = []
        self._later: set[asyncio.Task[None]] = set()
        self.mishaps: tuple[Mishap, ...] = ()
        self.share = 0.0
        self.keys = frozenset({PRODUCE_KEY})
        self.late_s = (0.9, 7.0)
        self.happened: Counter[str] = Counter()

    async def __aenter__(self) -> "FrameProxy":
        for number, port in enumerate(self._ports):
            self._servers.append(
                await asyncio.start_server(self._handler(number), self._host, port, limit=LIMIT)
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in self._later:
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)

    async def settled(self) -> None:
        """Return once every late request has arrived or found nobody."""
        while self._later:
            await asyncio.wait(self._later)

    def cut(self) -> int:
        """End all connections now, wherever their frames are; return how many there were."""
        relays = list(self._relays)
        for relay in relays:
            relay.end()
        return len(relays)

    def _handler(self, number: int) -> Callable[..., Awaitable[None]]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            target = self._targets[number]
            try:
                up = await asyncio.open_connection(LOCALHOST, target, limit=LIMIT)
            except OSError:
                writer.transport.abort()
                return
            relay = _Relay(self, number, (reader, writer), up)
            self._relays[relay] = None
            try:
                await relay.run()
            finally:
                del self._relays[relay]

        return handle

    def choose(self, key: int) -> Mishap | None:
        """Return what happens to the next request of an API."""
        if key not in self.keys or not self.mishaps or self._rng.random() >= self.share:
            return None
        possible = [each for each in self.mishaps if key == PRODUCE_KEY or each not in WRITES_ONLY]
        if not possible:
            return None
        found = self._rng.choice(possible)
        self.happened[found.value] += 1
        return found

    def send_later(self, frame: bytes, what: Mishap) -> None:
        """Send a request by a connection of its own, after a while."""
        wait_s = self._rng.uniform(*self.late_s) if what is Mishap.LATE else self._rng.random()
        task = asyncio.create_task(self._sent_later(frame, wait_s, what))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def delay_s(self) -> float:
        """Return how late an answer comes."""
        return self._rng.uniform(*self.late_s)

    async def _sent_later(self, frame: bytes, wait_s: float, what: Mishap) -> None:
        await asyncio.sleep(wait_s)
        for target in self._rng.sample(self._targets, len(self._targets)):
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                async with asyncio.timeout(LATE_TRY_S):
                    if await _landed(frame, target):
                        self.happened[f"{what.value}, landed"] += 1
                        return


async def _landed(frame: bytes, target: int) -> bool:
    """Send a Produce request to a broker; return whether it wrote the batch."""
    reader, writer = await asyncio.open_connection(LOCALHOST, target, limit=LIMIT)
    try:
        writer.write(frame)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        answer = await reader.readexactly(size)
    finally:
        writer.transport.abort()
    (version,) = struct.unpack_from(">h", frame, 6)
    schema: Any = load_response_schema(PRODUCE_KEY, version)
    _, at = entity_reader(schema.__header_schema__)(answer, 0)
    content, _ = entity_reader(schema)(answer, at)
    (part,) = content.responses[0].partition_responses
    return bool(part.error_code is ErrorCode.none)


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Relay:
    """One connection and the one behind it."""

    def __init__(self, proxy: FrameProxy, number: int, client: Ends, broker: Ends) -> None:
        self._proxy = proxy
        self._number = number
        self._client = client
        self._broker = broker
        self._expected: asyncio.Queue[tuple[Mishap | None, bytes]] = asyncio.Queue()

    async def run(self) -> None:
        """Pass frames on until one side ends."""
        back = asyncio.create_task(self._answers())
        try:
            await self._requests()
        except (OSError, EOFError):
            pass
        finally:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
            self.end()

    def end(self) -> None:
        """End both connections."""
        self._client[1].transport.abort()
        self._broker[1].transport.abort()

    async def _requests(self) -> None:
        while True:
            frame = await _frame(self._client[0])
            (key,) = struct.unpack_from(">h", frame, 4)
            what = self._proxy.choose(key)
            if what in WRITES_ONLY:
                assert what is not None
                self._proxy.send_later(frame, what)
            if what is Mishap.LATE:
                continue
            if what is Mishap.REQUEST_CUT:
                self._broker[1].write(frame[: len(frame) // 2])
                await self._broker[1].drain()
                return
            self._expected.put_nowait((what, frame))
            self._broker[1].write(frame)
            await self._broker[1].drain()

    async def _answers(self) -> None:
        try:
            while True:
                frame = await _frame(self._broker[0])
                what, request = self._expected.get_nowait()
                if self._proxy.seen is not None:
                    self._proxy.seen(self._number, request, frame, what not in CUT_SHORT)
                if what is Mishap.ANSWER_LOST:
                    return
                if what is Mishap.ANSWER_LATE:
                    await asyncio.sleep(self._proxy.delay_s())
                if what in HALVED:
                    half, frame = frame[: len(frame) // 2], frame[len(frame) // 2 :]
                    self._client[1].write(half)
                    await self._client[1].drain()
                if what is Mishap.ANSWER_CUT:
                    return
                if what is Mishap.ANSWER_HALVED:
                    await asyncio.sleep(self._proxy.delay_s())
                self._client[1].write(frame)
                await self._client[1].drain()
        except (OSError, EOFError):
            pass
        finally:
            self.end()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(struct.unpack(">i", size)[0])
