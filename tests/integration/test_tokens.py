"""A process that takes tokens: rights by ServiceAccount, and consumers that outlive late tokens."""

import asyncio
import json
import os
import subprocess
import sys
import time

import pytest
import trustme

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.acls import AclBinding
from sharemesh.client.connect import connect
from sharemesh.client.errors import ConnectionFailedError
from sharemesh.domain.bearer_tokens import LEEWAY_MS
from sharemesh.methods import API_VERSIONS
from sharemesh.ports.network import CallFailedError
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.tls import TlsFiles
from tests.rpc.certificates import issue, replace
from tests.tokens.issuer import AUDIENCE, ISSUER, JANE, key_set, token

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

ADMIN = "system:serviceaccount:ops:admin"


def show(directory, name: str, *, lasts_s: float = 3_600, **claims) -> None:
    """Replace the token file of a name; it holds for so long by the server's clock."""
    now = time.time()
    ends = now + lasts_s - LEEWAY_MS / 1_000
    text = token(exp=int(ends), nbf=int(now) - 1, **claims)
    replace(directory / f"{name}.token", text.encode())


@pytest.fixture
def served(tmp_path):
    """A whole cluster in one process; return its address and where the files are."""
    authority = trustme.CA()
    replace(tmp_path / "ca.crt", authority.cert_pem.bytes())
    issue(authority, tmp_path, "server", "server")
    replace(tmp_path / "keys.json", key_set("rs1"))
    command = [sys.executable, "-m", "sharemesh.serve", "--role=all", "--listen-port=0"]
    command += [f"--data-directory={tmp_path / 'data'}", "--authorizer=acl"]
    command += [f"--super-users=User:{ADMIN}", f"--tls-certificate={tmp_path}/server.crt"]
    command += [f"--tls-key={tmp_path}/server.key", f"--tls-authority={tmp_path}/ca.crt"]
    command += ["--tls-client-certificates=none", f"--token-issuer={ISSUER}"]
    command += [f"--token-audience={AUDIENCE}", f"--token-keys={tmp_path}/keys.json"]
    show(tmp_path, "admin", sub=ADMIN)
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        line = process.stdout.readline()
        assert line, (tmp_path / "log").read_text()
        yield f"localhost:{json.loads(line)['port']}", tmp_path
    finally:
        process.kill()
        process.communicate()
        log.close()


def connection(served, name: str):
    address, directory = served
    return connect(
        address,
        security_protocol="ssl",
        ssl_ca_location=str(directory / "ca.crt"),
        sasl_token_location=str(directory / f"{name}.token"),
    )


async def allow_jane(served) -> None:
    async with connection(served, "admin").async_admin() as admin:
        await admin.create_topic("orders", 1)
        wanted = (("read", "group", "g"), ("read", "topic", "orders"), ("write", "topic", "orders"))
        await admin.create_acls([AclBinding(f"User:{JANE}", *each) for each in wanted])
        await admin.alter_group_configs("g", {"share.auto.offset.reset": "earliest"})


async def one_record(consumer) -> bytes:
    async with asyncio.timeout(60):
        while True:
            for record in await consumer.poll(1_000):
                return record.value


async def until_refused(served, name: str, why: str) -> None:
    """Return when the server refuses the token in the file of a name."""
    address, directory = served
    caller = GrpcCaller(
        SystemClock(),
        tls=TlsFiles(authority=directory / "ca.crt"),
        token_file=directory / f"{name}.token",
    )
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    await caller.call(API_VERSIONS, API_VERSIONS.request(), to=address)
                except CallFailedError as error:
                    if why not in error.message:
                        raise
                    return
                await asyncio.sleep(0.1)
    finally:
        await caller.close()


async def test_a_consumer_outlives_a_late_token_and_keys_that_lag(served) -> None:
    _, directory = served
    await allow_jane(served)
    show(directory, "jane", lasts_s=6)
    show(directory, "writer")
    jane, writer = connection(served, "jane"), connection(served, "writer")
    async with writer.async_producer() as producer, jane.async_share_consumer("g") as consumer:
        await consumer.subscribe(["orders"])
        await producer.send("orders", b"1")
        assert await one_record(consumer) == b"1"
        polling = asyncio.create_task(one_record(consumer))
        await until_refused(served, "jane", "has expired")
        show(directory, "jane", kid="rs2")
        await until_refused(served, "jane", "not among those of its issuer")
        await producer.send("orders", b"2")
        assert not polling.done()
        replace(directory / "keys.json", key_set("rs1", "rs2"))
        assert await polling == b"2"
    log = (directory / "log").read_text()
    assert "eyJ" not in log, "no token is ever written"


async def test_what_never_heals_ends_a_consumer_in_words(served) -> None:
    _, directory = served
    await allow_jane(served)
    show(directory, "jane", aud="another")
    async with connection(served, "jane").async_share_consumer("g") as consumer:
        await consumer.subscribe(["orders"])
        with pytest.raises(ConnectionFailedError, match="not for the audience sharemesh") as ended:
            await one_record(consumer)
        assert not ended.value.retriable


def test_commands_show_the_token_of_a_file(served) -> None:
    address, directory = served
    config = directory / "tls.properties"
    config.write_text(f"security.protocol=ssl\nssl.ca.location={directory}/ca.crt\n")

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "sharemesh.cli", *arguments, "--command-config", str(config)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "SHAREMESH_BOOTSTRAP": address},
        )

    token_file = ("--token-file", str(directory / "admin.token"))
    assert run("topics", "create", "orders", *token_file).returncode == 0
    assert "orders" in run(*token_file, "topics", "list").stdout
    assert "orders" not in run("topics", "list").stdout, "ANONYMOUS sees nothing"
    show(directory, "jane", iss="https://elsewhere")
    refused = run("topics", "list", "--token-file", str(directory / "jane.token"))
    assert refused.returncode != 0
    assert f"not of the issuer {ISSUER}" in refused.stderr
