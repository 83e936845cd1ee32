"""Files and connections of a process: their bounds, and what is said when they run out."""

import asyncio
import os
import resource
import socket
from pathlib import Path

import pytest

from sharemesh.rpc.limits import MAX_CONNECTIONS, ServerLimits
from sharemesh.rpc.server import GrpcServer
from sharemesh.serve.process.file_descriptors import ConnectionWatch, connections_max, open_sockets
from sharemesh.serve.process.memory import resident_bytes
from tests.clocks import ManualClock


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [(256, 128), (1_024, 512), (1 << 20, MAX_CONNECTIONS), (-1, MAX_CONNECTIONS), (1, 1)],
)
def test_half_of_what_may_be_open_is_kept_for_files(descriptors, connections) -> None:
    assert connections_max(descriptors) == connections


def test_refused_connections_are_said_once_and_so_is_their_end(caplog) -> None:
    caplog.set_level("INFO")
    found = iter([10, 96, 120, 90, None, 84, 84, None])
    watch = ConnectionWatch(ManualClock(), 100, lambda _: next(found))
    said = []
    for _ in range(8):
        watch.look()
        said.append([record.levelname for record in caplog.records])
        caplog.clear()
    assert said == [[], ["WARNING"], [], [], [], ["INFO"], [], ["WARNING"]]


def test_sockets_are_counted_and_memory_is_read_when_no_file_can_be_opened_any_more() -> None:
    before = open_sockets()
    assert resident_bytes() > 0
    with socket.socket(), socket.socket():
        assert open_sockets() == before + 2
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            assert open_sockets() is None
            assert resident_bytes() > 0
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_files_are_not_asked_what_they_are_while_there_are_fewer_than_connections_may_be(
    monkeypatch,
) -> None:
    asked = []
    readlink = Path.readlink
    monkeypatch.setattr(Path, "readlink", lambda path: asked.append(path) or readlink(path))
    sockets = open_sockets()
    assert asked
    asked.clear()
    assert open_sockets(1_000_000) >= sockets
    assert asked == []


async def test_connections_beyond_the_bound_are_closed_and_taken_again_when_others_end() -> None:
    server = GrpcServer(limits=ServerLimits(max_connections=3))
    port = await server.start("127.0.0.1", 0)

    async def is_taken() -> tuple[bool, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        return await reader.read(1) != b"", writer  # a server of HTTP/2 speaks first

    taken = [await is_taken() for _ in range(5)]
    assert [each for each, _ in taken] == [True, True, True, False, False]
    for _, writer in taken:
        writer.close()
        await writer.wait_closed()
    async with asyncio.timeout(10):
        again, writer = await is_taken()
        while not again:
            writer.close()
            again, writer = await is_taken()
    writer.close()
    await writer.wait_closed()
    await server.stop(0)
