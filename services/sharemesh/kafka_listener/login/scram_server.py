"""The server's side of SCRAM (RFC 5802): neither side learns what the other keeps."""

import base64
import binascii
import hashlib
import hmac

from sharemesh.domain.scram_credentials import ScramCredential, ScramMechanism
from sharemesh.kafka_listener.login.refusal import LoginRefusedError

NONCE_CHARS_MAX = 1_000
_HEADER = "n,"


class ScramServer:
    """Two answers: to who somebody is, and to the proof of it."""

    def __init__(self, mechanism: ScramMechanism, first: bytes, nonce: str) -> None:
        """Read a client's first message; ``nonce`` is the server's part of one.

        Raises:
            LoginRefusedError: It is none.
        """
        self._algorithm = mechanism.algorithm
        self._mechanism = mechanism
        text = _text(first)
        header, comma, bare = _cut_header(text)
        fields = _fields(bare)
        if not comma or [key for key, _ in fields[:2]] != ["n", "r"]:
            raise LoginRefusedError(f"the first message of {mechanism} cannot be read")
        self.username = _name(fields[0][1])
        client_nonce = fields[1][1]
        if not self.username or not 0 < len(client_nonce) <= NONCE_CHARS_MAX:
            raise LoginRefusedError(f"the first message of {mechanism} lacks a name or a nonce")
        self._binding = base64.b64encode(f"{header},".encode()).decode()
        if header not in (_HEADER, f"{_HEADER}a={fields[0][1]}"):
            raise LoginRefusedError(
                "a login on behalf of another user, or bound to a channel, is not taken"
            )
        self._nonce = client_nonce + nonce
        self._said = bare
        self._credential: ScramCredential | None = None

    def first(self, credential: ScramCredential) -> bytes:
        """Return the server's first message: salt and iterations of this credential."""
        self._credential = credential
        salt = base64.b64encode(credential.salt).decode()
        words = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._said += f",{words}"
        return words.encode()

    def final(self, client_final: bytes) -> bytes:
        """Return the server's own proof, if the client's holds.

        Raises:
            LoginRefusedError: It does not.
        """
        assert self._credential is not None, "the first message is answered first"
        without_proof, _, proof = _text(client_final).rpartition(",p=")
        fields = dict(_fields(without_proof))
        if fields.get("c") != self._binding or fields.get("r") != self._nonce:
            raise LoginRefusedError("the final message answers another login")
        said = f"{self._said},{without_proof}".encode()
        stored, algorithm = self._credential.stored_key, self._algorithm
        signature = hmac.digest(stored, said, algorithm)
        shown = _decoded(proof)
        if len(shown) != len(signature):
            raise LoginRefusedError(invalid_credentials(self._mechanism))
        client_key = bytes(a ^ b for a, b in zip(shown, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(algorithm, client_key).digest(), stored):
            raise LoginRefusedError(invalid_credentials(self._mechanism))
        verifier = hmac.digest(self._credential.server_key, said, algorithm)
        return b"v=" + base64.b64encode(verifier)


def invalid_credentials(mechanism: str) -> str:
    """Return the words of a login whose user or password is wrong; they do not say which."""
    return (
        f"Authentication failed: invalid credentials with SASL mechanism {mechanism}; check user "
        "and password, or create the user with: sharemesh users create NAME"
    )


def _cut_header(text: str) -> tuple[str, str, str]:
    """Return header, comma, rest: ``n,,rest`` or ``n,a=name,rest``."""
    flag, first, rest = text.partition(",")
    who, second, bare = rest.partition(",")
    return f"{flag}{first}{who}", second, bare


def _fields(text: str) -> list[tuple[str, str]]:
    pairs = (each.partition("=") for each in text.split(","))
    return [(key, value) for key, equals, value in pairs if equals]


def _name(encoded: str) -> str:
    return encoded.replace("=2C", ",").replace("=3D", "=")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise LoginRefusedError("a message of SCRAM is no text") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise LoginRefusedError("a proof of SCRAM is not base64") from None
