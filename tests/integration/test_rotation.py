"""Certificates of server and clients are replaced under load: nothing fails, nothing is lost."""

import asyncio
import json
import subprocess
import sys

import pytest
import trustme

from sharemesh.client.connect import connect
from tests.rpc.certificates import issue, replace

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

ROTATIONS = 3


@pytest.fixture
def served(tmp_path):
    """A whole cluster in one process with mutual TLS; return its address and its log."""
    authority = trustme.CA()
    replace(tmp_path / "ca.crt", authority.cert_pem.bytes())
    for name in ("server", "client"):
        issue(authority, tmp_path, name, name)
    command = [sys.executable, "-m", "sharemesh.serve", "--role=all", "--listen-port=0"]
    command += [f"--data-directory={tmp_path / 'data'}", f"--tls-authority={tmp_path}/ca.crt"]
    command += [f"--tls-certificate={tmp_path}/server.crt", f"--tls-key={tmp_path}/server.key"]
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        line = process.stdout.readline()
        assert line, (tmp_path / "log").read_text()
        yield f"localhost:{json.loads(line)['port']}", tmp_path, process
    finally:
        process.kill()
        process.communicate()
        log.close()


def cluster_of(address, directory):
    return connect(
        address,
        security_protocol="ssl",
        ssl_ca_location=str(directory / "ca.crt"),
        ssl_certificate_location=str(directory / "client.crt"),
        ssl_key_location=str(directory / "client.key"),
    )


class Load:
    """A producer that goes on and a consumer that accepts; both say what they did."""

    def __init__(self, cluster) -> None:
        self._cluster = cluster
        self._stop = asyncio.Event()
        self.sent: list[bytes] = []
        self.got: dict[bytes, int] = {}

    async def produce(self) -> None:
        async with self._cluster.async_producer() as producer:
            while not self._stop.is_set():
                value = str(len(self.sent)).encode()
                await producer.send_and_wait("orders", value)
                self.sent.append(value)

    async def consume(self) -> None:
        async with self._cluster.async_share_consumer("g") as consumer:
            await consumer.subscribe(["orders"])
            while not (self._stop.is_set() and len(self.got) == len(self.sent)):
                for record in await consumer.poll(200):
                    self.got[record.value] = max(
                        self.got.get(record.value, 0), record.delivery_count
                    )

    def stop(self) -> None:
        self._stop.set()

    async def goes_on(self, records: int) -> None:
        """Return when so many more records came through."""
        until = len(self.got) + records
        async with asyncio.timeout(60):
            while len(self.got) < until:
                await asyncio.sleep(0.05)


async def renewed(log, times: int) -> None:
    async with asyncio.timeout(60):
        while log.read_text().count("tls files renewed") < times:
            await asyncio.sleep(0.05)


async def test_certificates_are_replaced_under_load_and_nothing_fails_or_is_lost(served) -> None:
    address, directory, process = served
    cluster = cluster_of(address, directory)
    async with cluster.async_admin() as admin:
        await admin.create_topic("orders", 2)
        await admin.alter_group_configs("g", {"share.auto.offset.reset": "earliest"})
    load = Load(cluster)
    async with asyncio.timeout(240), asyncio.TaskGroup() as running:
        running.create_task(load.produce())
        running.create_task(load.consume())
        await load.goes_on(20)
        old = trustme.CA()
        replace(directory / "ca.crt", (directory / "ca.crt").read_bytes() + old.cert_pem.bytes())
        for rotation in range(1, ROTATIONS + 1):
            # As an authority is replaced: both are trusted before anybody shows the new one's.
            await renewed(directory / "log", 2 * rotation - 1)
            await load.goes_on(20)
            for name in ("server", "client"):
                issue(old, directory, name, name)
            await renewed(directory / "log", 2 * rotation)
            await load.goes_on(50)
            new = trustme.CA()
            replace(directory / "ca.crt", old.cert_pem.bytes() + new.cert_pem.bytes())
            old = new
        load.stop()
    assert len(load.sent) > ROTATIONS * 70
    assert load.got.keys() == set(load.sent)
    assert set(load.got.values()) == {1}, "no stream was cut: nothing was delivered again"
    assert process.poll() is None
