"""Connections of those who have no way in: no certificate, a forged one, or nothing to say."""

import asyncio
import contextlib
import random
from typing import Any

import grpc

from sharemesh.methods import API_VERSIONS, METHODS
from sharemesh.v1.admin_pb2 import ApiVersionsRequest
from tests.faults.abuse.abused_cluster import (
    NO_CERTIFICATE,
    NO_RIGHT,
    ROLES,
    WRONG_CA,
    Stage,
)
from tests.faults.abuse.kinds import abuse
from tests.rpc.bursts import HALF_OPEN, burst

CROWD = 3_000
HELD_S = 1.0
DRIPS = 100
HONEST = 200


async def _crowd(stage: Stage, role: str, kind: str) -> None:
    with contextlib.ExitStack() as crowd:
        rng = random.Random(CROWD)
        made = burst(stage.addresses[role], CROWD, kind, rng)
        await asyncio.to_thread(crowd.enter_context, made)
        await asyncio.sleep(HELD_S)


@abuse(NO_CERTIFICATE, finding=1, once=True)
async def half_open_handshakes(stage: Stage, who: str) -> None:
    """The first six bytes of a handshake on 3,000 connections, and no more."""
    await _crowd(stage, "share-leader", "half-open")


@abuse(NO_CERTIFICATE, finding=1, once=True)
async def garbage_instead_of_a_handshake(stage: Stage, who: str) -> None:
    """A hundred random bytes on 3,000 connections."""
    await _crowd(stage, "share-leader", "garbage")


@abuse(NO_CERTIFICATE, finding=1, once=True)
async def connections_that_say_nothing(stage: Stage, who: str) -> None:
    """3,000 connections without a byte."""
    await _crowd(stage, "group-coordinator", "silent")


@abuse(NO_CERTIFICATE, finding=1, once=True)
async def connections_closed_at_once(stage: Stage, who: str) -> None:
    """3,000 connections that are gone before they are looked at."""
    await _crowd(stage, "controller", "closed at once")


@abuse(NO_CERTIFICATE)
async def plain_text_to_the_port_of_tls(stage: Stage, who: str) -> None:
    """The preface of HTTP/2 without TLS, to each role."""
    for role in ROLES:
        host, _, port = stage.addresses[role].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        with contextlib.suppress(OSError):
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(2_000))
            async with asyncio.timeout(2):
                stage.look("plain text", b"", await reader.read(10_000))
        writer.transport.abort()


@abuse(NO_CERTIFICATE)
async def handshakes_drop_by_drop(stage: Stage, who: str) -> None:
    """A hundred handshakes of which a byte comes now and then."""
    host, _, port = stage.addresses["share-leader"].rpartition(":")
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(DRIPS)]
    for byte in HALF_OPEN:
        for _, writer in opened:
            writer.write(bytes([byte]))
        await asyncio.sleep(0.2)
    for _, writer in opened:
        writer.transport.abort()


@abuse(NO_CERTIFICATE, WRONG_CA, once=True)
async def calls_without_a_certificate_of_ours(stage: Stage, who: str) -> None:
    """Each RPC, over connections that the handshake must refuse."""
    for role in ROLES:
        channel = stage.new_channel(who, role)
        invoke: Any = channel.unary_unary(f"/sharemesh.v1.{METHODS[0].name}")
        try:
            await invoke(b"", timeout=5.0)
        except grpc.aio.AioRpcError as error:
            stage.look("a refused handshake", b"", (error.details() or "").encode())
            code = error.code()
        else:
            code = grpc.StatusCode.OK
        finally:
            await channel.close()
        assert code is grpc.StatusCode.UNAVAILABLE, f"{who} at {role}: {code}"


@abuse(WRONG_CA, once=True)
async def forged_names_by_the_hundred(stage: Stage, who: str) -> None:
    """A certificate that says alice, of another authority, on 30 connections at a time."""

    async def one() -> None:
        channel = stage.new_channel(who, "share-leader")
        invoke: Any = channel.unary_unary("/sharemesh.v1.Admin/Metadata")
        try:
            await invoke(b"", timeout=5.0)
        except grpc.aio.AioRpcError:
            return
        finally:
            await channel.close()
        raise AssertionError("a forged certificate was answered")

    await asyncio.gather(*(one() for _ in range(30)))


@abuse(NO_RIGHT, finding=1, once=True)
async def proper_connections_all_at_once(stage: Stage, who: str) -> None:
    """Two hundred clients with good certificates, each with a connection and one call."""

    async def one() -> None:
        channel = stage.new_channel(who, "share-coordinator")
        invoke: Any = channel.unary_unary(f"/sharemesh.v1.{API_VERSIONS.name}")
        try:
            await invoke(ApiVersionsRequest().SerializeToString(), timeout=30.0)
        finally:
            await channel.close()

    await asyncio.gather(*(one() for _ in range(HONEST)))
