"""The logins that a process takes, and the login of one connection (spec KLS-20 to KLS-23)."""

from collections.abc import Sequence
from random import Random

from sharemesh.kafka.security import SaslMechanism
from sharemesh.kafka_listener.login.hashing import Hashing
from sharemesh.kafka_listener.login.mechanisms import (
    KnownUsers,
    LoginStep,
    Mechanism,
    PlainLogin,
    ScramLogin,
    TokenLogin,
    scram_of,
)
from sharemesh.kafka_listener.login.refusal import LoginRefusedError
from sharemesh.ports.bearer_tokens import BearerTokens
from sharemesh.ports.clock import Clock
from sharemesh.ports.user_credentials import UserCredentials
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry

REFUSAL_MS = 200
"""When the answer to a login that proves nothing comes: guessing takes time, always as much."""


class Logins:
    """What a process needs to let clients log in; without mechanisms nobody has to."""

    def __init__(
        self,
        mechanisms: Sequence[SaslMechanism],
        credentials: UserCredentials,
        tokens: BearerTokens | None,
        clock: Clock,
        rng: Random,
        registry: Registry,
        *,
        session_ms: int = 0,
    ) -> None:
        """``session_ms`` is how long a login lasts at most; 0: for ever."""
        self.mechanisms = tuple(mechanisms)
        self.clock = clock
        self._session_ms = session_ms
        self._users = KnownUsers(credentials)
        self._tokens = tokens
        self._rng = rng
        self._registry = registry
        self._hashing = Hashing()

    def open(self, secret: bytes) -> None:
        """Take logins from now on; the cluster's secret hides which users exist."""
        self._users.secret = secret

    def close(self) -> None:
        """End what hashes passwords."""
        self._hashing.close()

    def begin(self, mechanism: SaslMechanism, source: str) -> Mechanism:
        """Return a new login; ``source`` is where it comes from."""
        scram = scram_of(mechanism)
        if scram is not None:
            return ScramLogin(scram, self._users, self._rng)
        if mechanism is SaslMechanism.PLAIN:
            return PlainLogin(self._users, self._hashing, source)
        assert self._tokens is not None, "the settings ask for an issuer"
        return TokenLogin(self._tokens)

    def lasts_ms(self, step: LoginStep) -> int:
        """Return how long a login lasts, 0 for ever: no longer than what proved it."""
        ends = [self._session_ms] if self._session_ms else []
        if step.for_ms is not None:
            ends.append(max(1, step.for_ms))  # a token may end while it is judged
        return min(ends, default=0)

    def count(self, mechanism: SaslMechanism, outcome: str) -> None:
        """Count a login that ended."""
        self._registry.counter(names.KAFKA_LISTENER_LOGINS, mechanism.value, outcome).add()


class ConnectionLogin:
    """Who is at the other end of one connection, and for how long that is proved."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins
        self._mechanism: SaslMechanism | None = None
        self._under_way: Mechanism | None = None
        self._began_ms = 0
        self._ends_ms: int | None = None
        self.source = ""  # the other end's address, until it has a name
        self.principal: str | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether clients have to log in."""
        return bool(self._logins.mechanisms)

    @property
    def is_open(self) -> bool:
        """Whether every request is taken."""
        return not self.is_wanted or self.principal is not None

    @property
    def mechanisms(self) -> list[str]:
        """What a client may log in with."""
        return [each.value for each in self._logins.mechanisms]

    def is_over(self) -> bool:
        """Return whether the login has ended: the client has to log in anew (KIP-368)."""
        return self._ends_ms is not None and self._logins.clock.now_ms() >= self._ends_ms

    def choose(self, name: str) -> bool:
        """Begin a login, unless its mechanism is not taken."""
        found = next((each for each in self._logins.mechanisms if each.value == name), None)
        self._mechanism, self._under_way = found, None
        if found is not None:
            self._under_way = self._logins.begin(found, self.principal or self.source)
            self._began_ms = self._logins.clock.now_ms()
        return found is not None

    @property
    def is_under_way(self) -> bool:
        """Whether a mechanism was chosen whose login has not ended."""
        return self._under_way is not None

    def lasts_too_long(self, login_ms: int) -> bool:
        """Return whether a login was begun so long ago and has not ended."""
        return self.is_under_way and self._logins.clock.now_ms() - self._began_ms >= login_ms

    async def say(self, message: bytes) -> tuple[bytes, int]:
        """Return the answer to what the client says, and how long its login lasts (0: no end).

        Raises:
            LoginRefusedError: It proves nothing, or another user than before; it was counted.
        """
        under_way, mechanism = self._under_way, self._mechanism
        assert under_way is not None, "a mechanism is chosen first"
        assert mechanism is not None
        logins = self._logins
        began_ms = logins.clock.now_ms()
        try:
            step = await under_way.say(message)
            if step.principal is None:
                return step.said, 0
            self._take(step)
        except LoginRefusedError:
            self._under_way = None
            logins.count(mechanism, "refused")
            # How long a password is tried follows from what is kept of it, or that nothing is.
            await logins.clock.sleep_ms(max(0, began_ms + REFUSAL_MS - logins.clock.now_ms()))
            raise
        self._under_way = None
        logins.count(mechanism, "done")
        lasts_ms = logins.lasts_ms(step)
        self._ends_ms = logins.clock.now_ms() + lasts_ms if lasts_ms else None
        return step.said, lasts_ms

    def _take(self, step: LoginStep) -> None:
        if self.principal not in (None, step.principal):
            raise LoginRefusedError("Cannot change principals during re-authentication")
        self.principal = step.principal
