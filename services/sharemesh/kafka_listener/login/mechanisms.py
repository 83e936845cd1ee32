"""One login by each mechanism: what a client says, step by step, and whom it proves."""

import hashlib
import hmac
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol

from sharemesh.domain.bearer_tokens import TokenRefusal
from sharemesh.domain.scram_credentials import (
    USER_CHARS_MAX,
    ScramCredential,
    ScramMechanism,
    credential_of,
)
from sharemesh.kafka.security import SaslMechanism
from sharemesh.kafka_listener.login.hashing import Hashing
from sharemesh.kafka_listener.login.refusal import LoginRefusedError
from sharemesh.kafka_listener.login.scram_server import ScramServer, invalid_credentials
from sharemesh.ports.bearer_tokens import BearerTokens
from sharemesh.ports.user_credentials import UserCredentials

ITERATIONS_OF_NOBODY = 8_192
"""What a user who does not exist is asked for: as many as most users have."""

_NONCE_BITS = 192
_SEPARATOR = "\x01"
_BEARER = "auth=bearer "
_INVALID_TOKEN = b'{"status":"invalid_token"}'


class LoginStep(NamedTuple):
    """An answer within a login; with a principal it is the last one."""

    said: bytes
    principal: str | None = None
    for_ms: int | None = None


class Mechanism(Protocol):
    """One login."""

    async def say(self, message: bytes) -> LoginStep:
        """Return the answer to what the client says.

        Raises:
            LoginRefusedError: It proves nothing.
        """
        ...


@dataclass(slots=True)
class KnownUsers:
    """Passwords, and what a user who does not exist is treated as: as one with a wrong password.

    ``secret`` is the cluster's: with it each process makes the same salt of the same name.
    """

    credentials: UserCredentials
    secret: bytes = b""

    def find(self, name: str, mechanism: ScramMechanism) -> tuple[ScramCredential, bool]:
        """Return what is kept of a user; or, and False, what nobody can prove."""
        found = self.credentials.credential(name, mechanism)
        # Made for everybody: else the time of an answer would tell who exists.
        false = self._false(name, mechanism)
        return (false, False) if found is None else (found, True)

    def _false(self, name: str, mechanism: ScramMechanism) -> ScramCredential:
        salt = hmac.digest(self.secret, f"{mechanism}\0{name}".encode(), "sha256")[:16]
        nothing = hashlib.new(mechanism.algorithm, self.secret + salt).digest()
        return ScramCredential(salt, ITERATIONS_OF_NOBODY, nothing, nothing)


class ScramLogin:
    """SCRAM-SHA-256 and SCRAM-SHA-512."""

    def __init__(self, mechanism: ScramMechanism, users: KnownUsers, rng: Random) -> None:
        self._mechanism = mechanism
        self._users = users
        self._rng = rng
        self._server: ScramServer | None = None
        self._asked_for: tuple[ScramCredential, bool] | None = None

    async def say(self, message: bytes) -> LoginStep:
        """Return the first message, then the proof (see the protocol)."""
        if self._server is None:
            nonce = f"{self._rng.getrandbits(_NONCE_BITS):x}"
            self._server = ScramServer(self._mechanism, message, nonce)
            self._asked_for = self._users.find(self._server.username, self._mechanism)
            return LoginStep(self._server.first(self._asked_for[0]))
        said = self._server.final(message)
        now = self._users.find(self._server.username, self._mechanism)
        # A proof says nothing once the user is gone or has another password.
        if not now[1] or now != self._asked_for:
            raise LoginRefusedError(invalid_credentials(self._mechanism))
        return LoginStep(said, f"User:{self._server.username}")


class PlainLogin:
    """PLAIN (RFC 4616), over TLS only; the password is hashed as the user's credential was."""

    def __init__(self, users: KnownUsers, hashing: Hashing, source: str) -> None:
        """``source`` takes its turn to have a password hashed."""
        self._users = users
        self._hashing = hashing
        self._source = source

    async def say(self, message: bytes) -> LoginStep:
        """Return who it is (see the protocol)."""
        try:
            on_behalf_of, name, password = message.decode().split("\0")
        except ValueError:
            raise LoginRefusedError("the message of PLAIN cannot be read") from None
        if on_behalf_of not in ("", name):
            raise LoginRefusedError("a login on behalf of another user is not taken")
        if not 0 < len(name) <= USER_CHARS_MAX:
            raise LoginRefusedError(invalid_credentials("PLAIN"))
        tried = [(each, *self._users.find(name, each)) for each in reversed(ScramMechanism)]
        mechanism, kept, exists = next((each for each in tried if each[2]), tried[0])
        salted = await self._hashing.salted(
            self._source, mechanism, password, kept.salt, kept.iterations
        )
        shown = credential_of(mechanism, salted, kept.salt, kept.iterations)
        is_right = hmac.compare_digest(shown.stored_key, kept.stored_key)
        # Others may have been hashed first: the user may be gone, or have another password.
        is_kept = self._users.find(name, mechanism) == (kept, exists)
        if not (is_right and exists and is_kept):
            raise LoginRefusedError(invalid_credentials("PLAIN"))
        return LoginStep(b"", f"User:{name}")


class TokenLogin:
    """OAUTHBEARER (RFC 7628): the token is judged as one of a gRPC call is."""

    def __init__(self, tokens: BearerTokens) -> None:
        self._tokens = tokens
        self._refused = ""

    async def say(self, message: bytes) -> LoginStep:
        """Return who it is (see the protocol); a refusal is told first, then made, as RFC 7628."""
        if self._refused:
            raise LoginRefusedError(f"Authentication failed: {self._refused}")
        judged = self._tokens.known(_token(message))
        if isinstance(judged, TokenRefusal):
            self._refused = judged.why
            return LoginStep(_INVALID_TOKEN)
        return LoginStep(b"", judged.principal, judged.ends_wall_ms - self._tokens.wall_ms())


def scram_of(mechanism: SaslMechanism) -> ScramMechanism | None:
    """Return the SCRAM of a mechanism, or None of another one."""
    try:
        return ScramMechanism(mechanism.value)
    except ValueError:
        return None


def _token(message: bytes) -> str:
    try:
        header, *pairs = message.decode().split(_SEPARATOR)
    except UnicodeDecodeError:
        raise LoginRefusedError("the message of OAUTHBEARER is no text") from None
    found = [each for each in pairs if each[: len(_BEARER)].lower() == _BEARER]
    if not header.startswith("n,") or len(found) != 1:
        raise LoginRefusedError("the message of OAUTHBEARER cannot be read")
    on_behalf_of = header.removeprefix("n,").rstrip(",")
    if on_behalf_of:
        raise LoginRefusedError("a login on behalf of another user is not taken")
    return found[0][len(_BEARER) :].strip()
