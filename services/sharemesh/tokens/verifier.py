"""Whom a bearer token names: judged by the keys that are known, which are read anew in turn."""

import asyncio
import logging
from dataclasses import dataclass

from sharemesh.domain.bearer_tokens import TOKEN_CHARS_MAX, BearerName, TokenRefusal, name_of
from sharemesh.ports.clock import Clock
from sharemesh.tasks import cancel_and_wait, first_done
from sharemesh.tokens.key_set import KeySet, KeySetError, SignatureRefusedError, UnknownKeyError
from sharemesh.tokens.key_source import KeySource, KeySourceError
from sharemesh.tokens.known_tokens import KnownTokens

READ_EVERY_MS = 300_000
"""How often the key set is read anyway."""

READ_AGAIN_MS = 10_000
"""Least time between two reads, whoever asks for them."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """Whose tokens are taken, and whom they must be for."""

    issuer: str
    audience: str


class TokenVerifier:
    """Fills ``ports.bearer_tokens.BearerTokens``; one task reads the key set (spec IDN-6)."""

    def __init__(self, trusted: TokenIssuer, source: KeySource, clock: Clock) -> None:
        """Nothing is read yet."""
        self._trusted = trusted
        self._source = source
        self._clock = clock
        self._keys: KeySet | None = None
        self._known = KnownTokens()
        self._asked = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._said = ""

    async def start(self, *, must_read: bool) -> None:
        """Read the key set, and keep reading it until ``close``.

        Raises:
            KeySourceError, KeySetError: It cannot be read or used, and ``must_read``.
        """
        if must_read:
            self._take(await self._source.read())
        else:
            await self._read()
        self._reading = asyncio.create_task(self._keep_reading())

    async def close(self) -> None:
        """Stop reading the key set."""
        if self._reading is not None:
            await cancel_and_wait(self._reading)

    def wall_ms(self) -> int:
        """Return the time by which tokens are judged (see the port)."""
        return self._clock.wall_ms()

    def known(self, token: str) -> BearerName | TokenRefusal:
        """Return whom a token names, or why nobody (see the port)."""
        if len(token) > TOKEN_CHARS_MAX:
            return TokenRefusal(f"the token is longer than {TOKEN_CHARS_MAX} characters")
        now_ms = self._clock.wall_ms()
        remembered = self._known.find(token)
        if remembered is not None and now_ms < remembered.ends_wall_ms:
            return remembered
        judged = self._judge(token, now_ms)
        if isinstance(judged, BearerName) and remembered is None:
            self._known.add(token, judged, now_ms)
        return judged

    def _judge(self, token: str, now_ms: int) -> BearerName | TokenRefusal:
        if self._keys is None:
            return self._refused_for_now("the keys of the token's issuer could not be read yet")
        try:
            claims = self._keys.claims(token)
        except UnknownKeyError:
            return self._refused_for_now(
                "the token's key is not among those of its issuer that are known here"
            )
        except SignatureRefusedError as error:
            return TokenRefusal(str(error))
        return name_of(
            claims,
            issuer=self._trusted.issuer,
            audience=self._trusted.audience,
            now_wall_ms=now_ms,
        )

    def _refused_for_now(self, why: str) -> TokenRefusal:
        """Let the key set be read, in its time; the caller does not wait for it."""
        self._asked.set()
        return TokenRefusal(f"{why}: they are read again, try again in a moment", stale=True)

    async def _keep_reading(self) -> None:
        while True:
            await self._clock.sleep_ms(READ_AGAIN_MS)
            if self._keys is not None and not self._said:
                await first_done(
                    self._asked.wait(), self._clock.sleep_ms(READ_EVERY_MS - READ_AGAIN_MS)
                )
            self._asked.clear()
            await self._read()

    async def _read(self) -> None:
        """Take the key set as it is now; or keep the one before, and say once why."""
        try:
            self._take(await self._source.read())
        except (KeySourceError, KeySetError) as error:
            if str(error) != self._said:
                self._said = str(error)
                _log.warning("keys of the token issuer not read: %s", error)
        else:
            self._said = ""

    def _take(self, data: bytes) -> None:
        self._known.drop_ended(self._clock.wall_ms())
        if self._keys is not None and self._keys.data == data:
            return
        self._keys = KeySet(data)
        self._known.clear()
        _log.info("keys of the token issuer read")
