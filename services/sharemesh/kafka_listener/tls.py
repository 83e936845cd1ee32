"""TLS of the listener: what it shows and demands, and whom a certificate names."""

import ssl
from collections.abc import Mapping
from typing import Any, Protocol

from sharemesh.domain.printable import has_controls

ANONYMOUS = "User:ANONYMOUS"
PRINCIPAL_CHARS_MAX = 1_000
_COMMON = "commonName"


class NamelessCertificateError(Exception):
    """A certificate names nobody; the message says why."""


class ListenerTls(Protocol):
    """Certificates as they are now."""

    def context(self) -> ssl.SSLContext:
        """Return what the next handshake is made with."""
        ...


def principal_of(certificate: Mapping[str, Any] | None) -> str:
    """Return ``User:<common name>`` of a verified certificate, else its first other name.

    ``certificate`` is as ``ssl.SSLSocket.getpeercert`` tells it; None or empty: there was none.

    Raises:
        NamelessCertificateError: Its name holds control characters (spec BND-6).
    """
    found = certificate or {}
    names = [
        *(value for part in found.get("subject", ()) for key, value in part if key == _COMMON),
        *(str(value) for _, value in found.get("subjectAltName", ())),
    ]
    name = next(filter(None, names), "")
    if has_controls(name):
        raise NamelessCertificateError(
            "the name in its certificate holds control characters: show one with a plain name"
        )
    return f"User:{name}" if 0 < len(name) <= PRINCIPAL_CHARS_MAX else ANONYMOUS


def why_failed(error: Exception) -> str:
    """Return why a handshake failed, and what to do."""
    words = getattr(error, "reason", None) or str(error) or type(error).__name__
    if words in {"HTTP_REQUEST", "WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING"}:
        return (
            f"its TLS handshake failed ({words}): if it speaks plain text, set security.protocol "
            "to SSL, or to SASL_SSL"
        )
    return f"its TLS handshake failed ({words}): check its truststore and its certificate"
