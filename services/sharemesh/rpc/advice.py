"""What to do about a server that cannot be connected to, when TLS and plain text meet."""

_NOT_CONNECTED = "failed to connect to all addresses"
"""How gRPC begins to tell that; the last of several reasons follows, of whichever address."""

_CLOSED = ("Socket closed", "Connection reset by peer")

_WITH_TLS = (
    ("WRONG_VERSION_NUMBER", "the server speaks plain text: leave out security.protocol=ssl"),
    ("CERTIFICATE_VERIFY_FAILED", "the server's certificate is not of the authority given: check "
     "ssl.ca.location"),
    ("Hostname Verification Check failed", "the server's certificate does not name this "
     "host: use one of the names in it"),
    *((said, "the server closed the TLS handshake: it may want a certificate of an authority that "
       "it trusts (ssl.certificate.location, ssl.key.location)") for said in _CLOSED),
)  # fmt: skip
_IN_PLAIN_TEXT = tuple(
    (said, "the server closed the connection at once: it may want TLS (security.protocol=ssl, "
     "ssl.ca.location)") for said in _CLOSED
)  # fmt: skip


class ConnectionAdvice:
    """What is known of one server.

    A name may have two addresses, and gRPC tells of one of them: what was said of the other before
    is remembered until there is a connection.
    """

    def __init__(self, *, tls: bool) -> None:
        self._telling = _WITH_TLS if tls else _IN_PLAIN_TEXT
        self._known = ""

    def of(self, details: str) -> str:
        """Return what to do about a failed call; empty if there is no better advice than usual."""
        if not details.startswith(_NOT_CONNECTED):
            return ""
        for said, advice in self._telling:
            if said in details:
                self._known = advice
                break
        return self._known

    def connected(self) -> None:
        """The server answered a call."""
        self._known = ""
