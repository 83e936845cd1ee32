"""TLS between caller and server: principals, renewal without a restart, bursts of handshakes."""

import asyncio
import itertools
import os
import random
import sys
from pathlib import Path

import grpc
import pytest
import trustme

from sharemesh.backends.local.clock import SystemClock
from sharemesh.methods import API_VERSIONS, CONSUME
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.server_certificates import HOLD_MS, OFFER_MS, ServerCertificates
from sharemesh.rpc.status import ConnectionAdvice
from sharemesh.rpc.tls import RENEWAL_LOOK_MS, TlsError, TlsFiles
from sharemesh.v1 import admin_pb2, share_leader_pb2
from tests.clocks import ManualClock
from tests.rpc.bursts import allow_many_files, burst
from tests.rpc.certificates import files, issue, replace

ROOT = Path(__file__).parents[2]
REQUEST = admin_pb2.ApiVersionsRequest()
RENEWALS = 8


async def who(_request, context):
    return admin_pb2.ApiVersionsResponse(server_version=context.principal)


async def echo(stream, _context):
    async for _ in stream:
        await stream.send(share_leader_pb2.ConsumeResponse())


@pytest.fixture
def directory(tmp_path):
    """Files of a server and of the client jane, under one authority."""
    renewed(tmp_path, server="server", client="jane")
    return tmp_path


def renewed(directory, **subjects) -> None:
    """Write new files for everybody, under a new authority."""
    authority = trustme.CA()
    for name, subject in subjects.items():
        issue(authority, directory, name, subject)
    replace(directory / "ca.crt", authority.cert_pem.bytes())


async def serving(tls: TlsFiles, clock=None) -> tuple[GrpcServer, str]:
    server = GrpcServer(tls=ServerCertificates(tls, clock or SystemClock()))
    server.offer(API_VERSIONS, who)
    server.offer_stream(CONSUME, echo)
    return server, f"localhost:{await server.start('127.0.0.1', 0)}"


async def called(tls: TlsFiles | None, address: str) -> str:
    """Return as whom the server takes one who comes with these files."""
    caller = GrpcCaller(SystemClock(), tls=tls)
    try:
        return (await caller.call(API_VERSIONS, REQUEST, to=address)).server_version
    finally:
        await caller.close()


async def look(clock: ManualClock, until) -> None:
    """Let looks at the files come, with real time for handshakes, until something holds."""
    async with asyncio.timeout(20):
        while not until():
            await clock.advance(RENEWAL_LOOK_MS)
            await asyncio.sleep(0.01)


async def test_mutual_tls_names_the_principal(directory) -> None:
    server, address = await serving(files(directory, "server"))
    assert await called(files(directory, "client"), address) == "User:jane"
    for tls in (None, TlsFiles(authority=directory / "ca.crt")):
        with pytest.raises(CallFailedError) as caught:
            await called(tls, address)
        assert caught.value.failure is Failure.UNAVAILABLE
    await server.stop(0)


async def test_renewed_certificates_serve_without_a_restart(directory, caplog) -> None:
    clock = ManualClock()
    caplog.set_level("INFO")
    server, address = await serving(
        TlsFiles(directory / "server.crt", directory / "server.key"), clock
    )
    renewed(directory, server="server")
    await look(clock, lambda: "tls files renewed" in caplog.text)
    assert await called(TlsFiles(authority=directory / "ca.crt"), address) == "User:ANONYMOUS"
    await server.stop(0)


async def test_files_that_do_not_fit_are_said_once_and_the_old_ones_serve(
    directory, caplog
) -> None:
    clock = ManualClock()
    caplog.set_level("INFO")
    server, address = await serving(files(directory, "server"), clock)
    key = (directory / "server.key").read_bytes()
    replace(directory / "server.key", (directory / "client.key").read_bytes())
    for _ in range(3):
        await look(clock, lambda: "not renewed" in caplog.text)
        await clock.advance(RENEWAL_LOOK_MS)
    assert caplog.text.count("tls files not renewed") == 1, "half replaced"
    assert str(directory / "server.key") in caplog.text
    assert await called(files(directory, "client"), address) == "User:jane"
    replace(directory / "server.key", key)
    await look(clock, lambda: "tls files renewed" in caplog.text)
    await server.stop(0)


async def test_new_certificates_are_offered_only_while_a_handshake_holds_the_old_ones(
    directory, caplog
) -> None:
    clock = ManualClock()
    certificates = ServerCertificates(files(directory, "server"), clock)
    certificates.credentials()
    heard = []

    async def hear(reader, writer):
        """Stands for a server that never answers a handshake."""
        heard.append(await reader.read(1))
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(hear, "127.0.0.1", 0)
    renewing = asyncio.create_task(certificates.renew(*silent.sockets[0].getsockname()))
    renewed(directory, server="server")
    await look(clock, lambda: "not renewed: no handshake was answered in time" in caplog.text)
    assert heard[0] == b"\x16"
    assert certificates._renewed() is None
    renewing.cancel()
    await asyncio.wait([renewing])
    silent.close()
    await silent.wait_closed()
    assert OFFER_MS * 2 + HOLD_MS < 20_000, "a server gives up a handshake sooner than that"


async def test_a_caller_shows_its_renewed_certificate_without_a_restart(directory, caplog) -> None:
    caplog.set_level("INFO")
    clock = ManualClock()
    server, address = await serving(files(directory, "server"), clock)
    caller = GrpcCaller(clock, tls=files(directory, "client"))
    assert (await caller.call(API_VERSIONS, REQUEST, to=address)).server_version == "User:jane"
    stream = await caller.stream(CONSUME, to=address)
    renewed(directory, server="server", client="joan")
    await look(clock, lambda: "tls files renewed" in caplog.text)
    assert (await caller.call(API_VERSIONS, REQUEST, to=address)).server_version == "User:joan"
    await stream.send(share_leader_pb2.ConsumeRequest(credit_records=1))
    await anext(stream)  # what was open goes on over the old connection
    await stream.close()
    (directory / "client.key").unlink()
    await clock.advance(RENEWAL_LOOK_MS)
    assert (await caller.call(API_VERSIONS, REQUEST, to=address)).server_version == "User:joan"
    await caller.close()
    await server.stop(0)


async def test_tls_files_that_are_missing_are_named(tmp_path) -> None:
    with pytest.raises(TlsError, match=r"gone\.crt"):
        GrpcCaller(SystemClock(), tls=TlsFiles(authority=tmp_path / "gone.crt"))
    with pytest.raises(TlsError, match=r"gone\.crt"):
        await serving(TlsFiles(tmp_path / "gone.crt", tmp_path / "gone.key"))
    with pytest.raises(TlsError, match="certificate and tls key"):
        await serving(TlsFiles())


async def refused(tls: TlsFiles | None, address: str) -> str:
    with pytest.raises(CallFailedError) as caught:
        await called(tls, address)
    return str(caught.value)


async def test_a_caller_and_a_server_that_do_not_fit_are_told_what_to_do(
    directory, tmp_path_factory
) -> None:
    server, address = await serving(files(directory, "server"))
    open_server = GrpcServer(reflection=False)
    open_address = f"127.0.0.1:{await open_server.start('127.0.0.1', 0)}"
    address = address.replace("localhost", "127.0.0.1")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    renewed(elsewhere, server="server", client="jane")
    assert "it may want TLS (security.protocol=ssl" in await refused(None, address)
    without = TlsFiles(authority=directory / "ca.crt")
    assert "it may want a certificate of an authority" in await refused(without, address)
    assert "check ssl.ca.location" in await refused(files(elsewhere, "client"), address)
    assert "speaks plain text" in await refused(files(directory, "client"), open_address)
    await server.stop(0)
    await open_server.stop(0)
    assert "check that the process runs" in await refused(None, open_address)


def test_what_is_known_of_one_address_of_a_name_is_not_forgotten_for_the_other() -> None:
    advice = ConnectionAdvice(tls=False)
    failed = "failed to connect to all addresses; last error: UNAVAILABLE: "
    refusal = failed + "ipv6:[::1]:9: Connection refused"
    assert advice.of(refusal) == ""
    assert advice.of("Socket closed") == "", "a connection that there was"
    assert "TLS" in advice.of(failed + "ipv4:127.0.0.1:9: Socket closed")
    assert "TLS" in advice.of(refusal)
    advice.connected()
    assert advice.of(refusal) == ""


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["half-open", "garbage"])
async def test_bursts_of_handshakes_cost_only_who_sent_them_also_while_certificates_are_renewed(
    directory, kind
) -> None:
    allow_many_files()
    log = directory / "log"
    with log.open("w") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.rpc.tls_server", str(directory), "100",
            cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=output,
            env={**os.environ, "GRPC_VERBOSITY": "NONE"},
        )  # fmt: skip
    port = int(await process.stdout.readline())
    stopped = asyncio.Event()

    async def renewals() -> None:
        """Replace the files by the same again: to the server they are new."""
        while not stopped.is_set():
            for name in ("server.crt", "server.key"):
                replace(directory / name, (directory / name).read_bytes())
            await asyncio.sleep(0.01)

    def bursts() -> None:
        rng = random.Random(1)
        sizes = itertools.chain((30, 300, 1_000), itertools.repeat(3_000))
        while log.read_text().count("tls files renewed") < RENEWALS and process.returncode is None:
            count = next(sizes)
            with burst(f"127.0.0.1:{port}", count, kind, rng) as sent:
                assert sent == count

    renewing = asyncio.create_task(renewals())
    try:
        await asyncio.to_thread(bursts)
        stopped.set()
        await renewing
        assert process.returncode is None
        tls = files(directory, "client")
        channel = grpc.aio.secure_channel(
            f"localhost:{port}",
            grpc.ssl_channel_credentials(
                *(path.read_bytes() for path in (tls.authority, tls.key, tls.certificate))
            ),
        )
        call = channel.unary_unary(
            f"/sharemesh.v1.{API_VERSIONS.name}",
            request_serializer=API_VERSIONS.request.SerializeToString,
            response_deserializer=API_VERSIONS.response.FromString,
        )
        answer = await call(REQUEST, timeout=60, wait_for_ready=True)
        assert answer.server_version == "User:jane"
        await channel.close()
    finally:
        stopped.set()
        renewing.cancel()
        process.kill()
        await process.communicate()
