"""Crowds of connections to each role at the same moment: a refused handshake costs who sent it.

Half-open, garbage, silent, closed at once, and honest; with TLS the certificates are replaced all
the while. After each crowd the role answers a call, and no process has ended.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import trustme

from sharemesh.client import connect
from sharemesh.methods import API_VERSIONS
from sharemesh.ports.cluster import Role
from sharemesh.ports.network import CallFailedError
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.tls import TlsFiles
from sharemesh.v1.admin_pb2 import ApiVersionsRequest
from tests.faults.node import Node, Place
from tests.faults.records import until
from tests.faults.trials import Outcome
from tests.rpc.bursts import FIRST_BYTES, allow_many_files, burst
from tests.rpc.certificates import files, issue, replace

SIZES = (30, 300, 1_000, 3_000, 5_000)
HONEST = 500
FILES = 400
"""What a process may have open in the trial of that limit."""

REFUSED, TAKEN_AGAIN = "others are refused", "connections are taken again"

ANSWER_TIMEOUT_S = 30.0
USE_TIMEOUT_S = 60.0
PAUSE_S = 0.1
RENEW_EVERY_S = 2.0
ROLES = (Role.CONTROLLER, Role.SHARE_COORDINATOR, Role.GROUP_COORDINATOR, Role.SHARE_LEADER)


async def crowds_in_plain_text(number: int, seed: int) -> Outcome:
    """All crowds to processes without TLS."""
    return await crowds(seed, with_tls=False)


async def crowds_with_tls(number: int, seed: int) -> Outcome:
    """All crowds to processes with mutual TLS, whose certificates are renewed meanwhile."""
    return await crowds(seed, with_tls=True)


async def more_than_files(number: int, seed: int) -> Outcome:
    """A crowd larger than the limit of open files: it is said once, and over with the crowd."""
    rng = random.Random(seed)
    async with Place() as place:
        node = await place.node("all", prefix=("prlimit", f"--nofile={FILES}:{FILES}"))
        wrong: list[str] = []
        for _ in range(2):
            took_s, why = await _crowd_beyond(place, node, rng)
            wrong += why
        said = node.log.read_text()
        for words in (REFUSED, TAKEN_AGAIN):
            if said.count(words) != 2:
                wrong.append(f"two crowds, and {said.count(words)} times: {words}")
        if "File descriptor limit reached" in said or "Too many open files" in said:
            wrong.append("connections took what files need")
        if not node.alive:
            wrong.append("the process ended")
        else:
            wrong += await _used(place, None)
    return Outcome(tuple(wrong), (), f"answered {took_s:.2f} s after the crowd")


async def _crowd_beyond(place: Place, node: Node, rng: random.Random) -> tuple[float, list[str]]:
    """Send a crowd and let it go; return how long a caller waited then, and what was wrong."""

    def times_said(words: str) -> int:
        return node.log.read_text().count(words)

    refused, taken = times_said(REFUSED), times_said(TAKEN_AGAIN)
    with contextlib.ExitStack() as crowd:
        await asyncio.to_thread(crowd.enter_context, burst(node.address, 4 * FILES, "silent", rng))
        await until(lambda: times_said(REFUSED) > refused, "nothing was said")
    answer = await _answer(place, node, None)
    await until(lambda: times_said(TAKEN_AGAIN) > taken, "the end of the crowd was not said")
    return (0.0, [answer]) if isinstance(answer, str) else (answer, [])


async def crowds(
    seed: int, *, with_tls: bool, sizes: Sequence[int] = SIZES, honest: int = HONEST
) -> Outcome:
    """Send every crowd to every role, and use the cluster afterwards."""
    allow_many_files()
    rng = random.Random(seed)
    async with Place() as place:
        tls = _certificates(place) if with_tls else None
        for role in ROLES:
            await place.node(str(role), role=str(role))
        pids = {name: node.pid for name, node in place.nodes.items()}
        slowest = 0.0
        wrong: list[str] = []
        async with _renewed(place.work) if tls else contextlib.nullcontext():
            for name, node in place.nodes.items():
                for kind in (*FIRST_BYTES, "honest"):
                    for size in (honest,) if kind == "honest" else sizes:
                        took_s, why = await _crowd(place, node, tls, kind, size, rng)
                        slowest = max(slowest, took_s)
                        wrong += [f"{name}, {size} {kind}: {each}" for each in why]
        wrong += [
            f"{name} ended in a crowd"
            for name, node in place.nodes.items()
            if not node.alive or node.pid != pids[name]
        ]
        if not wrong:
            wrong += await _used(place, tls)
        renewals = sum(
            node.log.read_text().count("tls files renewed") for node in place.nodes.values()
        )
        if tls and renewals < len(ROLES):
            wrong.append(f"certificates were renewed {renewals} times")
    return Outcome(tuple(wrong), (), f"slowest answer {slowest:.2f} s, {renewals} renewals")


async def _crowd(
    place: Place, node: Node, tls: TlsFiles | None, kind: str, size: int, rng: random.Random
) -> tuple[float, list[str]]:
    """Return how long a proper caller waited for its answer behind a crowd, and what was wrong."""
    if kind == "honest":
        answers = await asyncio.gather(*(_answer(place, node, tls) for _ in range(size)))
        failed = [each for each in answers if isinstance(each, str)]
        return max((each for each in answers if isinstance(each, float)), default=0.0), failed

    with contextlib.ExitStack() as crowd:
        await asyncio.to_thread(crowd.enter_context, burst(node.address, size, kind, rng))
        answer = await _answer(place, node, tls)
    return (0.0, [answer]) if isinstance(answer, str) else (answer, [])


async def _answer(place: Place, node: Node, tls: TlsFiles | None) -> float | str:
    """Call over a connection of one's own until it is answered; return the seconds, or why not."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    caller = GrpcCaller(place.clock, tls=tls)
    why = "never asked"
    try:
        while loop.time() - began < ANSWER_TIMEOUT_S:
            try:
                await caller.call(API_VERSIONS, ApiVersionsRequest(), to=node.address)
            except CallFailedError as error:
                why = str(error)
                await asyncio.sleep(PAUSE_S)
            else:
                return loop.time() - began
        return f"no answer for {ANSWER_TIMEOUT_S:.0f} s: {why}"
    finally:
        await caller.close()


def _certificates(place: Place) -> TlsFiles:
    """Issue certificates to the processes and to a client; return the client's."""
    authority = trustme.CA()
    replace(place.work / "ca.crt", authority.cert_pem.bytes())
    for name in ("server", "client"):
        issue(authority, place.work, name, name)
    server = files(place.work, "server")
    place.environment.update(
        SHAREMESH_TLS_CERTIFICATE=str(server.certificate),
        SHAREMESH_TLS_KEY=str(server.key),
        SHAREMESH_TLS_AUTHORITY=str(server.authority),
    )
    return files(place.work, "client")


@contextlib.asynccontextmanager
async def _renewed(directory: Path) -> AsyncIterator[None]:
    """Replace the files of the servers again and again: by the same, which is new to them."""

    async def renew() -> None:
        while True:
            for name in ("server.crt", "server.key"):
                replace(directory / name, (directory / name).read_bytes())
            await asyncio.sleep(RENEW_EVERY_S)

    renewing = asyncio.ensure_future(renew())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])


async def _used(place: Place, tls: TlsFiles | None) -> list[str]:
    """Create a topic, write to it and consume from it, as a proper client does."""
    config = {}
    if tls is not None:
        config = {
            "security_protocol": "ssl",
            "ssl_ca_location": str(tls.authority),
            "ssl_certificate_location": str(tls.certificate),
            "ssl_key_location": str(tls.key),
        }
    cluster = connect(place.bootstrap, **config)
    async with asyncio.timeout(USE_TIMEOUT_S):
        async with cluster.async_admin() as admin:
            await admin.create_topic("t", 2)
            await admin.alter_group_configs("g", {"share.auto.offset.reset": "earliest"})
        async with cluster.async_producer() as producer:
            await producer.send_and_wait("t", b"after the crowds")
        async with cluster.async_share_consumer("g") as consumer:
            await consumer.subscribe(["t"])
            while not (records := await consumer.poll(1_000)):
                pass
    return [] if records[0].value == b"after the crowds" else [f"consumed {records}"]
