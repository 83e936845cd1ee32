"""Several meshes in one etcd: keys below another root than the default."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from sharemesh.ports.coordination import (
    Coordination,
    Delete,
    ElectedLeadership,
    Guard,
    KeyValue,
    Put,
    RangeSnapshot,
    Session,
    WatchEvent,
)

SHIPPED_ROOT = "/sharemesh"


class NamespacedCoordination:
    """Fills ``Coordination`` over another one; ``/sharemesh/…`` becomes ``<root>/…`` in the store.

    Callers see keys with the default root only.
    """

    def __init__(self, inner: Coordination, root: str, shipped: str = SHIPPED_ROOT) -> None:
        """Wrap ``inner``.

        Args:
            inner: The store; closed with this.
            root: Where keys lie; begins with a slash and does not end with one.
            shipped: What keys begin with above; every key that is used does.
        """
        self._inner = inner
        self._root = root
        self._shipped = shipped

    async def open_session(self, *, ttl_ms: int) -> Session:
        """Grant a lease and keep it alive."""
        return await self._inner.open_session(ttl_ms=ttl_ms)

    async def get(self, key: str) -> KeyValue | None:
        """Return one key, linearizable."""
        found = await self._inner.get(self._stored(key))
        return None if found is None else self._shown(found)

    async def list(self, prefix: str) -> RangeSnapshot:
        """Return all keys with this prefix, linearizable."""
        return self._snapshot(await self._inner.list(self._stored(prefix)))

    async def commit(
        self,
        guards: Sequence[Guard],
        operations: Sequence[Put | Delete],
        *,
        session: Session | None = None,
    ) -> int | None:
        """Apply all operations if all guards hold; return the revision, or None if not."""
        return await self._inner.commit(
            [replace(each, key=self._stored(each.key)) for each in guards],
            [replace(each, key=self._stored(each.key)) for each in operations],
            session=session,
        )

    async def watch(self, prefix: str) -> AsyncGenerator[RangeSnapshot | WatchEvent, None]:
        """Yield a snapshot, then each change in order; a new snapshot after lost history."""
        async with aclosing(self._inner.watch(self._stored(prefix))) as changes:
            async for change in changes:
                if isinstance(change, RangeSnapshot):
                    yield self._snapshot(change)
                    continue
                current = change.current
                yield WatchEvent(
                    self._key(change.key),
                    None if current is None else self._shown(current),
                    change.revision,
                )

    async def campaign(self, election: str, value: bytes, session: Session) -> ElectedLeadership:
        """Return once elected under ``session``; cancelling withdraws."""
        won = await self._inner.campaign(self._stored(election), value, session)
        return replace(won, key=self._key(won.key))

    async def resign(self, leadership: ElectedLeadership) -> None:
        """Give a leadership up; the next candidate wins at once."""
        await self._inner.resign(replace(leadership, key=self._stored(leadership.key)))

    async def revoke(self, lease_id: int) -> None:
        """Revoke another process's lease."""
        await self._inner.revoke(lease_id)

    async def close(self) -> None:
        """Close connections; sessions end."""
        await self._inner.close()

    def _stored(self, key: str) -> str:
        return self._root + key.removeprefix(self._shipped)

    def _key(self, stored: str) -> str:
        return self._shipped + stored.removeprefix(self._root)

    def _shown(self, found: KeyValue) -> KeyValue:
        return replace(found, key=self._key(found.key))

    def _snapshot(self, found: RangeSnapshot) -> RangeSnapshot:
        return replace(found, entries=tuple(self._shown(each) for each in found.entries))
