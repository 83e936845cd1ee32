"""TLS of the Kafka listener: whom certificates name, certificates that are replaced, bad ends."""

import asyncio
import errno
import socket
import ssl

import pytest
import trustme

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.kafka_listener.tls import NamelessCertificateError, principal_of, why_failed
from sharemesh.kafka_listener.tls_door import Handshake
from sharemesh.rpc.tls import TlsError
from sharemesh.serve.process.listener_tls import ListenerCertificates
from sharemesh.telemetry import names
from tests.kafka_listener.logins import add_user, log_in
from tests.kafka_listener.world import NO_ERROR, ListeningMesh
from tests.rpc.certificates import files, issue, replace


class MovedClock(SystemClock):
    """The machine's clock, moved on by a test."""

    moved_ms = 0

    def now_ms(self):
        return super().now_ms() + self.moved_ms


class Place:
    """An authority, the server's files, and clients' contexts."""

    def __init__(self, directory):
        self.directory = directory
        self.clock = MovedClock()
        self.new_authority()
        issue(self.authority, directory, "server", "localhost")

    def new_authority(self):
        self.authority = trustme.CA()
        replace(self.directory / "ca.crt", self.authority.cert_pem.bytes())

    def certificates(self, *, demand=True):
        found = files(self.directory, "server")
        return ListenerCertificates(found, self.clock, demand_certificates=demand)

    def client(self, name=None):
        context = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        context.check_hostname = False
        if name is not None:
            issue(self.authority, self.directory, name, name)
            context.load_cert_chain(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        return context


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


async def test_a_certificate_names_whom_requests_are_from(place):
    """KLS-19: the common name, as for gRPC."""
    async with ListeningMesh(tls=place.certificates()) as mesh:
        seen = []
        handler = mesh.listener.handlers._unary[methods.METADATA.name]

        async def hear(request, context):
            seen.append(context.principal)
            return await handler(request, context)

        mesh.listener.handlers._unary[methods.METADATA.name] = hear
        async with mesh.connect(place.client("ann")) as client:
            assert (await client.ask(3, 13, topics=None)).error_code == NO_ERROR
            assert mesh.listener._of_principal == {"User:ann": 1}
        assert seen == ["User:ann"]
        await mesh.until(lambda: not mesh.listener.connections)
        assert mesh.listener._of_principal == {}


async def test_a_client_without_a_demanded_certificate_is_refused(place):
    """KLS-19."""
    async with ListeningMesh(tls=place.certificates()) as mesh:
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with mesh.connect(place.client()) as client:
                await client.ask(3, 13, topics=None)
        await mesh.until(lambda: mesh.counted(names.KAFKA_LISTENER_CLOSED))
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("tls_failed",): 1}
        assert [told[3] for told in mesh.refused] == ["UNAUTHENTICATED"]
        assert mesh.listener.connections == 0


async def test_a_login_over_tls_names_whom_requests_are_from(place):
    """KLS-19, KLS-21: certificates are not demanded of who logs in."""
    tls = place.certificates(demand=False)
    async with ListeningMesh(tls=tls, mechanisms=["PLAIN"]) as mesh:
        await add_user(mesh, "alice")
        async with mesh.connect(place.client()) as client:
            assert (await log_in(client, "PLAIN", "alice")).error_code == NO_ERROR
            assert (await client.ask(3, 13, topics=None)).error_code == NO_ERROR
            assert mesh.listener._of_principal == {"User:alice": 1}


async def test_certificates_are_read_again_when_they_changed(place, caplog):
    """KLS-19: each handshake has those of its time; open connections stay."""
    caplog.set_level("INFO")
    ann = place.client("ann")
    tls = place.certificates()
    async with ListeningMesh(tls=tls) as mesh, mesh.connect(ann) as before:
        old = place.client("ann")
        place.new_authority()
        issue(place.authority, place.directory, "server", "localhost")
        place.clock.moved_ms += 1_000
        async with mesh.connect(place.client("bob")) as after:
            assert (await after.ask(3, 13, topics=None)).error_code == NO_ERROR
        assert (await before.ask(3, 13, topics=None)).error_code == NO_ERROR
        with pytest.raises(ssl.SSLError):
            await mesh.connect(old).__aenter__()
    assert "tls files of the Kafka listener renewed" in caplog.messages


async def test_certificates_that_cannot_be_read_leave_the_old_ones(place, caplog):
    """KLS-19: said once."""
    certificates = place.certificates()
    now = certificates.context()
    for _ in range(2):
        replace(place.directory / "server.key", b"no key")
        place.clock.moved_ms += 1_000
        assert certificates.context() is now
    (place.directory / "server.crt").unlink()
    place.clock.moved_ms += 1_000
    assert certificates.context() is now
    said = [each for each in caplog.messages if "not renewed" in each]
    assert len(said) == 2
    assert certificates.context() is now
    with pytest.raises(TlsError, match=r"cannot read the tls file .*server\.crt"):
        place.certificates()


async def test_who_speaks_no_tls_is_told_in_the_log(place, caplog):
    """KLS-19."""
    async with ListeningMesh(tls=place.certificates()) as mesh, mesh.connect() as client:
        client.send(3, 13, topics=None)
        assert (await client.reader.read()) is not None
        await mesh.until(lambda: mesh.counted(names.KAFKA_LISTENER_CLOSED))
    [said] = [each for each in caplog.messages if "closed" in each]
    assert "set security.protocol to SSL" in said


async def test_a_handshake_that_does_not_go_on_is_closed(place):
    """KLS-6, KLS-7: it counts as a connection from the beginning."""
    async with ListeningMesh(tls=place.certificates(), first_request_ms=300) as mesh:
        async with mesh.connect() as client:
            await mesh.until(lambda: mesh.listener.connections == 1)
            await client.is_closed()
        await mesh.until(lambda: mesh.listener.connections == 0)
        async with mesh.connect():
            await mesh.until(lambda: mesh.listener.connections == 1)
        await mesh.until(lambda: mesh.listener.connections == 0)


class GoneSocket(socket.socket):
    """A connection that its client has reset: some systems refuse options of it."""

    def setsockopt(self, *_):
        raise OSError(errno.EINVAL, "it has gone")


async def test_a_connection_that_has_gone_keeps_no_place(place):
    """KLS-7."""
    async with ListeningMesh(tls=place.certificates()) as mesh:
        left, right = socket.socketpair()
        right.close()
        handshake = Handshake(GoneSocket(fileno=left.detach()), "ipv4:127.0.0.1:1")
        assert mesh.listener.shakes_hands(handshake)
        await mesh.listener._accepting._shake_hands(handshake)
        assert mesh.listener.connections == 0
        assert (mesh.listener._strangers, handshake.taken.fileno()) == ({}, -1)
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("tls_failed",): 1}


async def test_a_stop_ends_handshakes(place):
    """KLS-7."""
    async with ListeningMesh(tls=place.certificates()) as mesh, mesh.connect() as client:
        await mesh.until(lambda: mesh.listener.connections == 1)
        await mesh.listener.stop()
        assert await client.is_closed()
        assert mesh.listener.connections == 0


@pytest.mark.parametrize(
    ("certificate", "principal"),
    [
        (None, "User:ANONYMOUS"),
        ({}, "User:ANONYMOUS"),
        ({"subject": ((("organizationName", "o"),), (("commonName", "ann"),))}, "User:ann"),
        ({"subject": (), "subjectAltName": (("DNS", "a"), ("DNS", "b"))}, "User:a"),
        ({"subject": ((("commonName", ""),),), "subjectAltName": (("DNS", "a"),)}, "User:a"),
        ({"subject": ((("commonName", "x" * 1_001),),)}, "User:ANONYMOUS"),
    ],
)
def test_whom_a_certificate_names(certificate, principal):
    """KLS-19."""
    assert principal_of(certificate) == principal


@pytest.mark.parametrize("name", ["root\0.evil", "a\nb"])
def test_a_name_with_control_characters_is_none(name):
    """KLS-19, BND-6."""
    with pytest.raises(NamelessCertificateError, match="control characters"):
        principal_of({"subject": ((("commonName", name),),)})


def test_why_a_handshake_failed():
    """KLS-19."""
    assert "truststore" in why_failed(ConnectionResetError("reset"))


async def test_so_does_who_was_refused_and_does_not_end_its_connection(place):
    """KLS-27: TLS waits 30 s for the other side's end; a hundred of those would keep all out."""
    certificates = place.certificates(demand=False)
    mesh = ListeningMesh(mechanisms=["PLAIN"], tls=certificates, max_connections=1)
    async with mesh, mesh.connect(place.client()) as refused:
        refused.send(17, 1, mechanism="none")
        refused.writer.transport.pause_reading()
        await mesh.until(lambda: any(each._closed for each in mesh.listener._open))
        async with mesh.connect(place.client()) as client:
            await mesh.until(lambda: mesh.listener.connections == 1)
            assert not mesh.listener._leaving
            assert (await client.ask(17, 1, mechanism="PLAIN")).error_code == NO_ERROR


async def test_who_does_not_shake_hands_gives_way(place):
    """KLS-27."""
    async with ListeningMesh(tls=place.certificates(), max_connections=1) as mesh:
        async with mesh.connect() as silent:
            await mesh.until(lambda: mesh.listener.connections == 1)
            async with mesh.connect(place.client("ann")) as client:
                assert (await client.ask(3, 13, topics=None)).error_code == NO_ERROR
                assert await silent.is_closed()
                await mesh.until(lambda: mesh.listener.connections == 1)
            assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("gave_way",): 1}
        assert mesh.refused == []
        assert (mesh.listener._strangers, mesh.listener._leaving) == ({}, {})
