"""The listener for Kafka's clients: bytes that are no requests, logins that prove nothing."""

import asyncio
import contextlib
import random
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

from sharemesh.kafka_listener.served_requests import ServedRequest
from tests.faults.abuse.abused_cluster import (
    CALLS_AS,
    NO_CERTIFICATE,
    NO_RIGHT,
    Stage,
)
from tests.faults.abuse.kinds import abuse
from tests.rpc.bursts import burst

CROWD = 3_000
HELD_S = 1.0
AT_ONCE = 16
TRIES = 200
LINGERING = 300
LENGTHS = (-(2**31), -1, 0, 3, 4, 16_385, 524_289, 20 * 2**20 + 1, 2**31 - 1)
PASSWORD = "a password of bob's"

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def _wire(stage: Stage) -> AsyncIterator[Wire]:
    """Open a connection that has shaken hands."""
    host, _, port = stage.kafka.rpartition(":")
    context = ssl.create_default_context(cafile=str(stage.work / "ca.crt"))
    context.check_hostname = False
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def _said(stage: Stage, wire: Wire, sent: bytes, for_s: float = 5.0) -> bytes:
    """Send bytes, and return what comes until an answer or the end, looked through."""
    reader, writer = wire
    got = b""
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        writer.write(sent)
        async with asyncio.timeout(for_s):
            got = await reader.readexactly(4)
            (size,) = struct.unpack(">i", got)
            got += await reader.readexactly(size)
    stage.look("the Kafka listener", sent, got)
    return got


def _frame(key: int, version: int, body: bytes, correlation: int = 1) -> bytes:
    head = struct.pack(">hhih", key, version, correlation, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


async def _spread(tries: int, one: Callable[[int], Awaitable[None]]) -> None:
    """Carry tries out, so many at once."""
    left = iter(range(tries))

    async def worker() -> None:
        for number in left:
            with contextlib.suppress(OSError):
                await one(number)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def _crowd(stage: Stage, kind: str) -> None:
    with contextlib.ExitStack() as crowd:
        made = burst(stage.kafka, CROWD, kind, random.Random(CROWD))
        await asyncio.to_thread(crowd.enter_context, made)
        await asyncio.sleep(HELD_S)


@abuse(NO_CERTIFICATE, once=True)
async def kafka_half_open_handshakes(stage: Stage, who: str) -> None:
    """The first six bytes of a handshake on 3,000 connections, and no more."""
    await _crowd(stage, "half-open")


@abuse(NO_CERTIFICATE, once=True)
async def kafka_garbage_instead_of_a_handshake(stage: Stage, who: str) -> None:
    """A hundred random bytes on 3,000 connections."""
    await _crowd(stage, "garbage")


@abuse(NO_CERTIFICATE, once=True)
async def kafka_connections_that_say_nothing(stage: Stage, who: str) -> None:
    """3,000 connections without a byte."""
    await _crowd(stage, "silent")


@abuse(NO_CERTIFICATE, once=True)
async def kafka_connections_closed_at_once(stage: Stage, who: str) -> None:
    """3,000 connections that are gone before they are looked at."""
    await _crowd(stage, "closed at once")


@abuse(NO_CERTIFICATE)
async def kafka_requests_before_a_login(stage: Stage, who: str) -> None:
    """Each kind and version, with and without what it announces: none of them is answered."""

    async def one(number: int) -> None:
        request = kinds[number % len(kinds)]
        length = LENGTHS[number % len(LENGTHS)]
        async with _wire(stage) as wire:
            head = struct.pack(">hhih", request.key, request.highest, 1, -1)
            got = await _said(stage, wire, struct.pack(">i", length) + head)
            assert got == b"", f"{request.label} was answered before a login"

    kinds = [each for each in ServedRequest if each.key not in (17, 18, 36)]
    await _spread(2 * len(kinds), one)


@abuse(NO_CERTIFICATE)
async def kafka_bytes_that_are_no_frames(stage: Stage, who: str) -> None:
    """Random bytes behind a handshake."""
    rng = random.Random(7)

    async def one(_: int) -> None:
        async with _wire(stage) as wire:
            await _said(stage, wire, rng.randbytes(rng.randrange(1, 2_000)), for_s=0.2)

    await _spread(TRIES, one)


@abuse(NO_CERTIFICATE)
async def kafka_logins_that_prove_nothing(stage: Stage, who: str) -> None:
    """Wrong passwords, and bytes that are no login, by both mechanisms."""
    rng = random.Random(11)

    async def one(number: int) -> None:
        mechanism = ("PLAIN", "SCRAM-SHA-512")[number % 2]
        shown = (b"\0alice\0guess", b"n,,n=alice,r=x", rng.randbytes(200), b"")[number % 4]
        async with _wire(stage) as wire:
            name = struct.pack(">h", len(mechanism)) + mechanism.encode()
            await _said(stage, wire, _frame(17, 1, name))
            await _said(stage, wire, _frame(36, 1, struct.pack(">i", len(shown)) + shown, 2))

    await _spread(TRIES, one)


@abuse(NO_CERTIFICATE, once=True)
async def kafka_logins_that_never_end(stage: Stage, who: str) -> None:
    """Hundreds of connections that have shaken hands and begun a login."""
    async with contextlib.AsyncExitStack() as open_ones:
        name = struct.pack(">h", 5) + b"PLAIN"
        for _ in range(LINGERING):
            with contextlib.suppress(OSError):
                wire = await open_ones.enter_async_context(_wire(stage))
                await _said(stage, wire, _frame(17, 1, name))
        await asyncio.sleep(HELD_S)


async def _give_bob_a_password(stage: Stage) -> None:
    async with stage.client("root").async_admin() as admin:
        name = CALLS_AS[NO_RIGHT]
        problems = await admin.alter_user_scram_credentials({name: {"SCRAM-SHA-512": PASSWORD}})
    assert problems == {name: None}, problems


@abuse(NO_RIGHT, first=_give_bob_a_password)
async def kafka_requests_that_cannot_be_read(stage: Stage, who: str) -> None:
    """Behind a good login: each kind and version, with random bytes in place of its fields."""
    rng = random.Random(13)
    shown = f"\0{CALLS_AS[who]}\0{PASSWORD}".encode()
    kinds = list(ServedRequest)

    async def one(number: int) -> None:
        request = kinds[number % len(kinds)]
        version = rng.randint(request.lowest, request.highest)
        async with _wire(stage) as wire:
            await _said(stage, wire, _frame(17, 1, struct.pack(">h", 5) + b"PLAIN"))
            login = _frame(36, 1, struct.pack(">i", len(shown)) + shown, 2)
            await _said(stage, wire, login)
            body = rng.randbytes(rng.randrange(0, 300))
            await _said(stage, wire, _frame(request.key, version, body, 3), for_s=1.0)

    await _spread(TRIES, one)
