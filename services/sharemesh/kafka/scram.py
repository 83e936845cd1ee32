"""SCRAM (RFC 5802): both sides prove that they know a password, which never goes over the wire."""

import base64
import binascii
import hashlib
import hmac

ITERATIONS_MIN = 4_096
ITERATIONS_MAX = 1_000_000
_NO_BINDING = "n,,"


class ScramError(Exception):
    """What the other side said proves nothing; the message holds no secret."""


class ScramExchange:
    """The client's three steps; ``algorithm`` is that of hashlib."""

    def __init__(self, algorithm: str, username: str, password: str, nonce: str) -> None:
        self._algorithm = algorithm
        self._password = password
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"{_NO_BINDING}{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the proof for the server's first message; it takes milliseconds of processor time.

        Raises:
            ScramError: The message is malformed, answers another one, or asks too little or much.
        """
        found = _attributes(server_first)
        nonce, iterations = found.get("r", ""), found.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the broker answered another login")
        if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise ScramError(
                f"the broker asks for {iterations[:20]!r} iterations; "
                f"{ITERATIONS_MIN} to {ITERATIONS_MAX} are taken"
            )
        salt = _decoded(found.get("s", ""))
        salted = hashlib.pbkdf2_hmac(
            self._algorithm, self._password.encode(), salt, int(iterations)
        )
        bare = f"c={_encoded(_NO_BINDING.encode())},r={nonce}"
        said = f"{self._first_bare},{server_first.decode()},{bare}".encode()
        client_key = self._mac(salted, b"Client Key")
        stored_key = hashlib.new(self._algorithm, client_key).digest()
        signature = self._mac(stored_key, said)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._mac(self._mac(salted, b"Server Key"), said)
        return f"{bare},p={_encoded(proof)}".encode()

    def check(self, server_final: bytes) -> None:
        """Return if the server has proved that it knows the password, too.

        Raises:
            ScramError: It has not.
        """
        shown = _decoded(_attributes(server_final).get("v", ""))
        if not self._server_signature or not hmac.compare_digest(shown, self._server_signature):
            raise ScramError("the broker did not prove that it knows the password")

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self._algorithm).digest()


def _attributes(message: bytes) -> dict[str, str]:
    try:
        pairs = [each.split("=", 1) for each in message.decode().split(",")]
    except ValueError:
        raise ScramError("the broker's message is malformed") from None
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramError("the broker's message is malformed") from None


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
