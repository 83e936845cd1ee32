"""The listener's TLS: the same files as gRPC's, read again when they changed."""

import logging
import ssl

from sharemesh.ports.clock import Clock
from sharemesh.rpc.tls import RENEWAL_LOOK_MS, TlsError, TlsFiles, stamps

_log = logging.getLogger(__name__)


class ListenerCertificates:
    """Fills ``kafka_listener.tls.ListenerTls``: each handshake has the certificates of its time."""

    def __init__(self, files: TlsFiles, clock: Clock, *, demand_certificates: bool) -> None:
        """Read the files.

        Raises:
            TlsError: They cannot be used; the message names them.
        """
        self._files = files
        self._clock = clock
        self._demands = demand_certificates
        self._said = ""
        self._stamp = _look(files)
        self._now = self._read()
        self._next_look_ms = clock.now_ms() + RENEWAL_LOOK_MS

    def context(self) -> ssl.SSLContext:
        """Return what the next handshake is made with (see the protocol)."""
        now_ms = self._clock.now_ms()
        if now_ms >= self._next_look_ms:
            self._next_look_ms = now_ms + RENEWAL_LOOK_MS
            self._renew()
        return self._now

    def _renew(self) -> None:
        try:
            stamp = _look(self._files)
            if stamp == self._stamp:
                return
            self._now = self._read()
        except TlsError as error:
            if str(error) != self._said:  # half replaced, perhaps
                self._said = str(error)
                _log.warning("tls files of the Kafka listener not renewed: %s", error)
            return
        self._stamp = stamp
        self._said = ""
        _log.info("tls files of the Kafka listener renewed")

    def _read(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Whoever resumes a session shows no certificate anew: none is resumed.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            context.load_cert_chain(str(files.certificate), str(files.key), password=lambda: b"")
            if self._demands and files.authority is not None:
                context.load_verify_locations(str(files.authority))
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError, ValueError) as error:
            raise TlsError(
                f"the tls files {files.certificate} and {files.key} cannot be used: {error}; "
                "check the tls settings"
            ) from error
        return context


def _look(files: TlsFiles) -> tuple[int, ...]:
    try:
        return stamps(files)
    except OSError as error:
        raise TlsError(
            f"cannot read the tls file {error.filename}: {error.strerror}; check the tls settings"
        ) from error
