"""Certificates from files, and the principal that a client's certificate names."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

ANONYMOUS = "User:ANONYMOUS"

_log = logging.getLogger(__name__)


class TlsError(Exception):
    """A certificate, key or authority file cannot be used; the message names it."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files; absent ones are not used.

    A server needs ``certificate`` and ``key``; with ``authority`` it demands client certificates
    (mTLS) unless ``demand_certificates`` is off. A client needs ``authority`` (default: the
    system's) and, for mTLS, the other two.
    """

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    demand_certificates: bool = True


def _read(path: Path | None, what: str) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(
            f"cannot read the {what} file {path}: {error.strerror}; check the tls settings"
        ) from error


def client_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    """Return what a channel needs.

    Raises:
        TlsError: A file cannot be read, or only one of certificate and key is given.
    """
    if (files.certificate is None) != (files.key is None):
        raise TlsError("a client certificate needs both tls certificate and tls key")
    return grpc.ssl_channel_credentials(
        root_certificates=_read(files.authority, "tls authority"),
        private_key=_read(files.key, "tls key"),
        certificate_chain=_read(files.certificate, "tls certificate"),
    )


def _stamps(files: TlsFiles) -> tuple[int, ...]:
    paths = (files.certificate, files.key, files.authority)
    return tuple(path.stat().st_mtime_ns for path in paths if path is not None)


class RenewedCredentials:
    """What channels are opened with: read again when the files changed."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files; raises as ``client_credentials``."""
        self._files = files
        self._stamp = self._look()
        self.now = client_credentials(files)

    def changed(self) -> bool:
        """Look at the files, and return whether ``now`` is another than before."""
        stamp = self._look()
        if stamp in ((), self._stamp):
            return False
        try:
            self.now = client_credentials(self._files)
        except TlsError as error:
            _log.warning("tls files not renewed: %s", error)  # half replaced
            return False
        self._stamp = stamp
        return True

    def _look(self) -> tuple[int, ...]:
        try:
            return _stamps(self._files)
        except OSError:
            return ()  # being replaced


class _RenewedFiles:
    """Looks at each handshake whether the files changed, so that renewal needs no restart."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamp = _stamps(files)
        self._last = self.read()

    def read(self) -> grpc.ServerCertificateConfiguration:
        """Return the files as they are now."""
        certificate = _read(self._files.certificate, "tls certificate")
        key = _read(self._files.key, "tls key")
        if certificate is None or key is None:
            raise TlsError("a server with tls needs both tls certificate and tls key")
        return grpc.ssl_server_certificate_configuration(
            [(key, certificate)], _read(self._files.authority, "tls authority")
        )

    def renewed(self) -> grpc.ServerCertificateConfiguration:
        """Return the files if they changed since the last look, else the ones read before."""
        try:
            stamp = _stamps(self._files)
            if stamp != self._stamp:
                self._last = self.read()
                self._stamp = stamp
        except (OSError, TlsError) as error:
            # Half replaced: the old ones serve until the next handshake.
            _log.warning("tls files not renewed: %s", error)
        return self._last


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Return what a server port needs; renewed files are used from the next handshake on.

    Raises:
        TlsError: A file cannot be read, or certificate or key is missing.
    """
    if files.certificate is None or files.key is None:
        raise TlsError("a server with tls needs both tls certificate and tls key")
    try:
        renewed = _RenewedFiles(files)
    except OSError as error:
        raise TlsError(
            f"cannot read the tls file {error.filename}: {error.strerror}; check the tls settings"
        ) from error
    return grpc.dynamic_ssl_server_credentials(
        renewed.renewed(),
        renewed.renewed,
        require_client_authentication=files.authority is not None and files.demand_certificates,
    )


def principal_of(identity: Mapping[str, object]) -> str:
    """Return ``User:<common name>`` of a verified client certificate, else its first other name."""
    for name in ("x509_common_name", "x509_subject_alternative_name"):
        values = identity.get(name)
        if isinstance(values, list | tuple) and values and isinstance(values[0], bytes):
            return f"User:{values[0].decode('utf-8', 'replace')}"
    return ANONYMOUS
