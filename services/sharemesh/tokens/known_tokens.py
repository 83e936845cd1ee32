"""Tokens that held, remembered until they end (spec IDN-5)."""

import hashlib
import sys

from sharemesh.domain.bearer_tokens import BearerName

KNOWN_BYTES_MAX = 4 * 1024 * 1024
ENTRY_BYTES = 300
"""What one takes beside the text of its principal: digest, times, places in tables."""


class KnownTokens:
    """Names by the digest of the token; a token itself is not kept."""

    def __init__(self, bytes_max: int = KNOWN_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._names: dict[bytes, BearerName] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._names)

    def find(self, token: str) -> BearerName | None:
        """Return whom a token names that held before."""
        return self._names.get(_digest(token))

    def add(self, token: str, name: BearerName, now_wall_ms: int) -> None:
        """Remember a token that holds."""
        size = _size(name)
        if self.size_bytes + size > self._bytes_max:
            self.drop_ended(now_wall_ms)
        if self.size_bytes + size > self._bytes_max:
            self.clear()
        if size <= self._bytes_max:
            self._names[_digest(token)] = name
            self.size_bytes += size

    def drop_ended(self, now_wall_ms: int) -> None:
        """Forget those that have expired."""
        self._names = {
            digest: name for digest, name in self._names.items() if name.ends_wall_ms > now_wall_ms
        }
        self.size_bytes = sum(map(_size, self._names.values()))

    def clear(self) -> None:
        """Forget all."""
        self._names.clear()
        self.size_bytes = 0


def _size(name: BearerName) -> int:
    return ENTRY_BYTES + sys.getsizeof(name.principal)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
