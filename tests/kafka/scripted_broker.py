"""A broker whose answers a test writes: it decodes nothing but the headers of requests."""

import asyncio
import contextlib
import io
import struct
from collections.abc import Awaitable, Callable

from kio.index import load_response_schema
from kio.serial import entity_writer

from sharemesh.kafka.messages import entity_of
from sharemesh.kafka.versions import KafkaRequest

Answer = bytes | None
Script = Callable[[int, int], Awaitable[Answer] | Answer]
"""Version and correlation id of a request to what follows; None: no answer, b"" closes."""


def answer(request: KafkaRequest, version: int, correlation: int, content: dict) -> bytes:
    """Return a frame, its size in front."""
    cls = load_response_schema(request.key, version)
    out = io.BytesIO()
    header = cls.__header_schema__
    entity_writer(header)(out, entity_of(header, {"correlation_id": correlation}))
    entity_writer(cls)(out, entity_of(cls, content))
    return struct.pack(">i", len(out.getvalue())) + out.getvalue()


def says(request: KafkaRequest, **content: object) -> Script:
    """Return a script that always answers this."""
    return lambda version, correlation: answer(request, version, correlation, content)


def versions(offered: dict[KafkaRequest, tuple[int, int]] | None = None) -> Script:
    """Return a script that offers what is spoken here, or other versions."""
    spoken = {each: (each.lowest, each.highest) for each in KafkaRequest} | (offered or {})
    keys = [
        {"api_key": each.key, "min_version": low, "max_version": high}
        for each, (low, high) in spoken.items()
    ]
    return says(
        KafkaRequest.API_VERSIONS, error_code=no_error(), api_keys=keys, throttle_time=no_time()
    )


def no_error():
    from kio.schema.errors import ErrorCode

    return ErrorCode.none


def no_time():
    from datetime import timedelta

    return timedelta(0)


class ScriptedBroker:
    """Listens on a free port; ``asked`` lists (request, version) in the order of arrival."""

    def __init__(self, **scripts: Script) -> None:
        self.scripts = {"API_VERSIONS": versions(), **scripts}
        self.asked: list[tuple[str, int]] = []
        self.connections = 0
        self.port = 0
        self.server: asyncio.Server | None = None
        self._open: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "ScriptedBroker":
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        self.drop()

    def drop(self) -> None:
        """Close every connection."""
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version, correlation = struct.unpack(">hhi", frame[:8])
                name = next(each.name for each in KafkaRequest if each.key == key)
                self.asked.append((name, version))
                found = self.scripts[name](version, correlation)
                reply = await found if isinstance(found, Awaitable) else found
                if reply == b"":
                    break
                if reply is not None:
                    writer.write(reply)
        writer.transport.abort()
