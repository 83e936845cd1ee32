"""The certificates of a server port, and their renewal while handshakes come in.

gRPC asks for new certificates at the beginning of each handshake and replaces the old ones at
once, while other threads may be about to use them: without care that ends the process (grpcio
1.85). So new ones are offered only when the files changed, and only while a handshake of our own,
begun and left there, holds the old ones; no other handshake can then be the last to let them go.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator

import grpc

from sharemesh.ports.clock import Clock
from sharemesh.rpc.tls import RENEWAL_LOOK_MS, TlsError, TlsFiles, read_file, stamps

OFFER_MS = 2_000
"""How long new certificates are offered: then the check is repeated."""

HOLD_MS = 6_000
"""How long the old ones are held; a thread that was about to use them has long done so."""

_HANDSHAKE_RECORD = b"\x16"

_log = logging.getLogger(__name__)


class ServerCertificates:
    """Certificate, key and authority of one server port, read again when their files changed."""

    def __init__(self, files: TlsFiles, clock: Clock) -> None:
        """Nothing is read yet."""
        self._files = files
        self._clock = clock
        self._stamp: tuple[int, ...] = ()
        self._offered: tuple[grpc.ServerCertificateConfiguration, int] | None = None
        self._said = ""

    def credentials(self) -> grpc.ServerCredentials:
        """Return what a server port needs.

        Raises:
            TlsError: A file is missing or cannot be used; the message names it.
        """
        try:
            self._stamp = stamps(self._files)
        except OSError as error:
            raise TlsError(
                f"cannot read the tls file {error.filename}: {error.strerror}; "
                "check the tls settings"
            ) from error
        return grpc.dynamic_ssl_server_credentials(
            self._read(),
            self._renewed,  # type: ignore[arg-type]  # the stub knows no None: unchanged
            require_client_authentication=self._files.authority is not None
            and self._files.demand_certificates,
        )

    async def renew(self, host: str, port: int) -> None:
        """Look for changed files again and again, until cancelled.

        ``host`` and ``port`` are where the server listens: we shake hands with it ourselves.
        """
        while True:
            await self._clock.sleep_ms(RENEWAL_LOOK_MS)
            try:
                stamp = stamps(self._files)
                if stamp == self._stamp:
                    continue
                await self._replace(self._read(), host, port)
            except (OSError, TlsError, TimeoutError) as error:
                self._not_renewed(str(error) or "no handshake was answered in time")
            else:
                self._stamp = stamp
                self._said = ""
                _log.info("tls files renewed")

    def _not_renewed(self, why: str) -> None:
        """Log it once, not at each check."""
        if why != self._said:
            self._said = why
            _log.warning("tls files not renewed: %s", why)  # half replaced, perhaps

    def _read(self) -> grpc.ServerCertificateConfiguration:
        files = self._files
        certificate = read_file(files.certificate, "tls certificate")
        key = read_file(files.key, "tls key")
        authority = read_file(files.authority, "tls authority")
        if certificate is None or key is None:
            raise TlsError("a server with tls needs both tls certificate and tls key")
        _check(files)
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return new certificates, once; a thread of gRPC asks at each handshake."""
        offered = self._offered
        if offered is None or self._clock.now_ms() >= offered[1]:
            return None
        self._offered = None
        return offered[0]

    async def _replace(
        self, configuration: grpc.ServerCertificateConfiguration, host: str, port: int
    ) -> None:
        """Let gRPC take new certificates, and return when no thread can use the old ones.

        Raises:
            OSError, TimeoutError: A handshake of ours was not answered; the old ones serve.
        """
        async with _handshake_begun(host, port):
            self._offered = (configuration, self._clock.now_ms() + OFFER_MS)
            try:
                async with _handshake_begun(host, port):
                    pass  # it asked for new ones, if no other had before
            finally:
                untaken, self._offered = self._offered, None
                if untaken is None:
                    await self._clock.sleep_ms(HOLD_MS)
        if untaken is not None:
            raise TimeoutError


def _check(files: TlsFiles) -> None:
    """Refuse what gRPC would only refuse later, and without a reason."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    used = [path for path in (files.certificate, files.key, files.authority) if path is not None]
    try:
        context.load_cert_chain(str(files.certificate), str(files.key), password=lambda: b"")
        if files.authority is not None:
            context.load_verify_locations(str(files.authority))
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(
            f"the tls files {', '.join(str(each) for each in used)} cannot be used together: "
            f"{error}; check the tls settings"
        ) from error


@contextlib.asynccontextmanager
async def _handshake_begun(host: str, port: int) -> AsyncIterator[None]:
    """Begin a TLS handshake with a server, and leave it so until the end of the block.

    With the server's first bytes it is certain that the server works on it: it holds the
    certificates of that moment until we leave or its time for handshakes is over.
    """
    async with asyncio.timeout(OFFER_MS / 1_000):
        reader, writer = await asyncio.open_connection(_reachable(host), port)
        try:
            writer.write(_client_hello())
            first = await reader.read(1)
        except BaseException:
            writer.transport.abort()
            raise
    try:
        if first != _HANDSHAKE_RECORD:
            raise ConnectionError("our own handshake was refused")
        yield
    finally:
        writer.transport.abort()


def _reachable(host: str) -> str:
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host).strip("[]")  # noqa: S104


def _client_hello() -> bytes:
    """Return the first message of a client; the answer is not read, so nothing is checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()
