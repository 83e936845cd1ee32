"""BND-31: streams that need no right end when they are quiet, in time or for memory."""

import asyncio
import contextlib

import grpc
import pytest

from sharemesh.methods import API_VERSIONS
from sharemesh.rpc import quiet_streams
from sharemesh.rpc.carried_calls import CARRY
from sharemesh.rpc.quiet_streams import FEW_STREAMS, QuietStream, QuietStreamError, QuietStreams
from sharemesh.rpc.receiving_memory import ReceivingMemory
from sharemesh.rpc.server import GrpcServer
from sharemesh.v1 import admin_pb2

MIB = 1 << 20
ROOM = 100 * MIB
MANY = 3 * FEW_STREAMS


class Process:
    """A process whose memory the test decides."""

    def __init__(self):
        self.resident = 50 * MIB
        self.memory = ReceivingMemory(lambda: self.resident, ROOM)
        self.streams = self.memory.quiet_streams
        self.made = []

    def open(self, *, lasts=False):
        """Begin to serve a stream that does not end by itself."""
        stream = QuietStream(lasts=lasts)
        never = asyncio.get_running_loop().create_future()
        self.made.append(asyncio.ensure_future(self.streams.bounded(stream, never)))
        return stream, self.made[-1]


@pytest.fixture
async def process(monkeypatch):
    for name in ("LOOK_S", "LOOK_AT_FEW_S", "GONE_S"):
        monkeypatch.setattr(quiet_streams, name, 0.002)
    # None is young: a few that were left over would stay, as a few may.
    monkeypatch.setattr(quiet_streams, "YOUNG_S", 0.0)
    monkeypatch.setattr(quiet_streams, "RISE_BYTES_A_S", 0)
    made = Process()
    yield made
    made.memory.close()
    for each in made.made:
        each.cancel()


async def ended(task):
    async with asyncio.timeout(20):
        await asyncio.wait([task])
    return task.exception()


async def looked(process, times=5):
    """Wait until streams were looked at so often."""
    seen = 0
    look = process.streams._resident

    def resident():
        nonlocal seen
        seen += 1
        return look()

    process.streams._resident = resident
    async with asyncio.timeout(20):
        while seen < times:
            await asyncio.sleep(0.001)


async def test_bnd_31_many_quiet_streams_end_when_the_process_has_grown(process, caplog):
    opened = [process.open() for _ in range(MANY)]
    await asyncio.sleep(0)
    process.resident += ROOM + 1
    for _, task in opened:
        assert isinstance(await ended(task), QuietStreamError)
    [said] = [each for each in caplog.messages if "streams that say nothing are ended" in each]
    assert "the process has grown by 100 MiB" in said


async def test_bnd_31_streams_that_say_something_go_on(process, monkeypatch):
    monkeypatch.setattr(quiet_streams, "YOUNG_S", 3_600.0)
    opened = [process.open() for _ in range(MANY)]
    await asyncio.sleep(0)
    quiet, task = opened[0]
    quiet.heard_s -= 7_200.0
    process.resident += ROOM + 1
    assert isinstance(await ended(task), QuietStreamError)
    assert not any(each.done() for _, each in opened[1:])
    quiet.heard()
    assert quiet.heard_s > opened[1][0].heard_s


async def test_bnd_31_a_few_streams_take_what_they_take(process):
    opened = [process.open() for _ in range(FEW_STREAMS)]
    await asyncio.sleep(0)
    process.resident += 10 * ROOM
    await looked(process)
    assert not any(task.done() for _, task in opened)
    opened += [process.open() for _ in range(FEW_STREAMS)]
    await looked(process)
    assert not any(task.done() for _, task in opened), "what few had is the process's own"


async def test_bnd_31_what_a_process_takes_slowly_is_its_own(process, monkeypatch):
    monkeypatch.setattr(quiet_streams, "RISE_BYTES_A_S", 1 << 50)
    opened = [process.open() for _ in range(MANY)]
    for _ in range(4):
        process.resident += ROOM // 2
        await looked(process)
    assert not any(task.done() for _, task in opened)


async def test_bnd_31_few_streams_right_after_an_end_do_not_make_memory_the_processs_own(process):
    first = [process.open() for _ in range(MANY)]
    await asyncio.sleep(0)
    process.resident += ROOM + 1
    await asyncio.gather(*(ended(task) for _, task in first))
    second = [process.open() for _ in range(MANY)]
    for _, task in second:
        assert isinstance(await ended(task), QuietStreamError)


async def test_bnd_31_a_stream_that_is_quiet_for_long_ends_unless_it_may_last(process, monkeypatch):
    monkeypatch.setattr(quiet_streams, "QUIET_S", 0.01)
    _, short = process.open()
    _, long = process.open(lasts=True)
    assert isinstance(await ended(short), QuietStreamError)
    await looked(process)
    assert not long.done()


async def test_bnd_31_another_timeout_is_not_taken_for_an_end():
    async def late():
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        await QuietStreams(lambda: 0, 0).bounded(QuietStream(), late())


@pytest.mark.parametrize(
    ("path", "first"),
    [
        (f"/sharemesh.v1.{CARRY.name}", b""),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", b"\x3a\x00"),
        ("/grpc.health.v1.Health/Watch", b""),
    ],
)
async def test_bnd_31_streams_that_anybody_may_open_end_with_words(process, path, first):
    async def versions(_request, _context):
        return admin_pb2.ApiVersionsResponse()

    server = GrpcServer(memory=process.memory)
    server.offer(API_VERSIONS, versions)
    port = await server.start("127.0.0.1", 0)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            calls = [channel.stream_stream(path)(timeout=20) for _ in range(MANY)]
            for call in calls:
                await call.write(first)
            async with asyncio.timeout(20):
                while len(process.streams._streams) < MANY:
                    await asyncio.sleep(0.001)
            process.resident += 2 * ROOM
            for call in calls:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    while await call.read() is not grpc.aio.EOF:
                        pass
                assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                assert "the stream said nothing" in await call.details()
    finally:
        await server.stop(0)
