"""Certificates from files; who a caller is: by secret, certificate, token or header."""

import hmac
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import grpc

from sharemesh.domain.bearer_tokens import TokenRefusal
from sharemesh.domain.printable import has_controls
from sharemesh.ports.bearer_tokens import BearerTokens
from sharemesh.ports.network import CallFailedError, Failure

ANONYMOUS = "User:ANONYMOUS"
RENEWAL_LOOK_MS = 1_000
"""How often a server, and a caller when it is used, checks whether its files changed."""

_log = logging.getLogger(__name__)
SECRET_HEADER = "sharemesh-cluster-secret"  # noqa: S105 - its name, not a secret
AUTHORIZATION = "authorization"
_COMMON_NAME = "x509_common_name"
_OTHER_NAME = "x509_subject_alternative_name"
_SUBJECT = "x509_subject"
_CERTIFICATE = "x509_pem_cert"
_ESCAPED_CONTROL = re.compile(rb"(?<!\\)(?:\\\\)*\\(?:[01][0-9A-Fa-f]|7[Ff])")
"""In a subject as RFC 2253 writes it; gRPC tells a common name only up to a NUL."""

PRINCIPAL_CHARS_MAX = 1_000
_BEARER = "bearer "


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


def read_file(path: Path | None, what: str) -> bytes | None:
    """Return the bytes of a PEM file, None of none.

    Raises:
        TlsError: It cannot be read.
    """
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
        root_certificates=read_file(files.authority, "tls authority"),
        private_key=read_file(files.key, "tls key"),
        certificate_chain=read_file(files.certificate, "tls certificate"),
    )


def stamps(files: TlsFiles) -> tuple[int, ...]:
    """Return what differs after the files were replaced; raises OSError if one is not there."""
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
        """Check the files; return whether ``now`` is another than before."""
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
            return stamps(self._files)
        except OSError:
            return ()  # being replaced


def principal_of(identity: Mapping[str, object]) -> str:
    """Return ``User:<common name>`` of a verified client certificate, else its first other name.

    Raises:
        CallFailedError: UNAUTHENTICATED, the name holds control characters (spec BND-6).
    """
    name = _first(identity, _COMMON_NAME)
    if name:
        hides = _ESCAPED_CONTROL.search(_first(identity, _SUBJECT)) is not None
    else:
        name = _first(identity, _OTHER_NAME)
        hides = bool(name) and not _is_whole(name, _first(identity, _CERTIFICATE))
    user = name.decode("utf-8", "replace")
    if hides or (not user.isprintable() and has_controls(user)):
        raise CallFailedError(
            Failure.UNAUTHENTICATED,
            "the name in the certificate holds control characters: show one with a plain name",
        )
    return f"User:{user}" if 0 < len(user) <= PRINCIPAL_CHARS_MAX else ANONYMOUS


def _first(identity: Mapping[str, object], key: str) -> bytes:
    """Return the first value that gRPC tells, empty without one; it ends at a NUL."""
    values = identity.get(key)
    if isinstance(values, list | tuple) and values and isinstance(values[0], bytes):
        return values[0]
    return b""


@lru_cache(maxsize=256)
def _is_whole(name: bytes, certificate: bytes) -> bool:
    """Return whether a certificate has just this other name, and not one that goes on."""
    from cryptography import x509  # what it takes to load it is for those who need it

    try:
        found = x509.load_pem_x509_certificate(certificate).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    return name in [str(each.value).encode() for each in names]


def _has_certificate(identity: Mapping[str, object]) -> bool:
    """Return whether a certificate was verified, whatever it says and names."""
    return any(name.startswith("x509_") for name in identity)


class Proven(NamedTuple):
    """Whom a call is from; ``for_ms``: how long the token lasts that says so, None without one."""

    principal: str
    for_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Principals:
    """How callers are known, the first that applies (spec IDN-2).

    Attributes:
        secret: Calls with this text in ``SECRET_HEADER`` are from ``node``; empty: none are.
        node: The principal of the cluster's own processes.
        header: Metadata key whose value names the user of callers without a certificate; empty:
            none. Only for servers that nobody but a trusted proxy can reach.
        users: Further principals of the cluster itself: its super users.
        tokens: Who judges bearer tokens of callers without a certificate; None: they are nothing.
    """

    secret: str = ""
    node: str = ""
    header: str = ""
    users: tuple[str, ...] = ()
    tokens: BearerTokens | None = None

    @property
    def own(self) -> frozenset[str]:
        """The principals whose calls are the cluster's own (spec BND-2)."""
        return frozenset(filter(None, (self.node, *self.users)))

    def of(self, identity: Mapping[str, object], metadata: Iterable[tuple[str, str]]) -> Proven:
        """Return the principal of a call: ``node``, ``User:<name>`` or ``User:ANONYMOUS``.

        Raises:
            CallFailedError: UNAUTHENTICATED, the header names more than one user, a name holds
                control characters (spec BND-6), or the token does not hold (spec IDN-4).
        """
        sent = tuple(metadata)
        given = dict(sent).get(SECRET_HEADER, "")
        if self.secret and hmac.compare_digest(given.encode(), self.secret.encode()):
            return Proven(self.node)
        if (not self.header and self.tokens is None) or _has_certificate(identity):
            return Proven(principal_of(identity))
        if self.tokens is not None:
            shown = [value for key, value in sent if key == AUTHORIZATION]
            if shown:
                return _by_token(self.tokens, shown, identity)
        return self._by_header(sent)

    def _by_header(self, sent: tuple[tuple[str, str], ...]) -> Proven:
        if not self.header:
            return Proven(ANONYMOUS)
        names = [value for key, value in sent if key == self.header]
        if len(names) > 1:
            raise CallFailedError(
                Failure.UNAUTHENTICATED,
                f"the metadata has {len(names)} values of {self.header}, which names the user: "
                "the proxy must replace what its clients send, not add to it",
            )
        name = names[0] if names else ""
        if not name.isprintable() and has_controls(name):
            raise CallFailedError(
                Failure.UNAUTHENTICATED,
                f"the user that {self.header} names holds control characters: send a plain name",
            )
        return Proven(f"User:{name}" if 0 < len(name) <= PRINCIPAL_CHARS_MAX else ANONYMOUS)


def _by_token(tokens: BearerTokens, shown: list[str], identity: Mapping[str, object]) -> Proven:
    """Return whom the token of a call names.

    Raises:
        CallFailedError: UNAUTHENTICATED; the words hold nothing of what was shown.
    """
    if len(shown) > 1:
        refusal = TokenRefusal(f"the metadata has {len(shown)} values of {AUTHORIZATION}: send one")
    elif shown[0][: len(_BEARER)].lower() != _BEARER:
        refusal = TokenRefusal(f"{AUTHORIZATION} is not of the form 'Bearer <token>'")
    elif identity.get("transport_security_type") != [b"ssl"]:
        refusal = TokenRefusal("tokens are taken over TLS only: replace this one, it was readable")
    else:
        judged = tokens.known(shown[0][len(_BEARER) :].strip())
        if not isinstance(judged, TokenRefusal):
            return Proven(judged.principal, judged.ends_wall_ms - tokens.wall_ms())
        refusal = judged
    raise CallFailedError(Failure.UNAUTHENTICATED, refusal.why, stale=refusal.stale)
