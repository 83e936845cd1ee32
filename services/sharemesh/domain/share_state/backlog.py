"""Stored updates that are folded only when their share partition is requested.

A shard may load a million updates; most share partitions are not asked for at once. Their updates
stay as stored until then, bounded by ``size_bytes``.
"""

from collections.abc import Callable, Sequence

from sharemesh.domain.ids import SharePartitionKey, format_key, parse_key
from sharemesh.domain.share_state.records import StateUpdate

DecodeUpdates = Callable[[Sequence[bytes]], Sequence[StateUpdate]]


class Backlog:
    """Updates as stored, by the key text of their share partition."""

    def __init__(self, decode: DecodeUpdates) -> None:
        """``decode`` reads stored values, in their order, leaving out what it does not know."""
        self._decode = decode
        self.values: dict[bytes, list[bytes]] = {}
        """By key text, oldest first. A load fills it directly, a million times, and counts."""
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self.values)

    def take(self, key: SharePartitionKey) -> Sequence[StateUpdate]:
        """Return the updates of a key, oldest first, and forget them."""
        if not self.values:
            return ()
        values = self.values.pop(format_key(key).encode(), None)
        if values is None:
            return ()
        self.size_bytes -= sum(map(len, values))
        return self._decode(values)

    def drop(self, key: SharePartitionKey) -> int:
        """Forget the updates of a key, which a later record made void; return how many."""
        if not self.values:
            return 0
        values = self.values.pop(format_key(key).encode(), ())
        self.size_bytes -= sum(map(len, values))
        return len(values)

    def keys(self, limit: int) -> list[SharePartitionKey]:
        """Return up to ``limit`` keys that have updates here."""
        texts = [text for _, text in zip(range(limit), self.values, strict=False)]
        return [parse_key(text.decode()) for text in texts]
