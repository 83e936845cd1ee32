"""Whom a bearer token names (spec IDN)."""

from typing import Protocol

from sharemesh.domain.bearer_tokens import BearerName, TokenRefusal


class BearerTokens(Protocol):
    """Answers from memory: neither waits nor reads."""

    def known(self, token: str) -> BearerName | TokenRefusal:
        """Return whom a token names, or why nobody; the words hold nothing of it."""
        ...

    def wall_ms(self) -> int:
        """Return the time by which tokens are judged, in milliseconds since the epoch."""
        ...
