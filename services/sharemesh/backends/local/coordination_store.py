"""The key-value store behind the in-process coordination: revisions, leases, watchers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import (
    CoordinationError,
    Delete,
    Guard,
    KeyValue,
    Put,
    RangeSnapshot,
    WatchEvent,
)


def election_prefix(election: str) -> str:
    """Return under which keys the candidates of an election stand."""
    return election.rstrip("/") + "/"


def candidate_key(election: str, lease_id: int) -> str:
    """Return the key of one candidate: one a lease."""
    return f"{election_prefix(election)}{lease_id:x}"


@dataclass(slots=True)
class _Lease:
    ttl_ms: int
    expires_ms: int
    keys: set[str] = field(default_factory=set)
    timer: "asyncio.Task[None] | None" = None


class LocalStore:
    """All keys of one simulated etcd. Every method is one atomic step."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._revision = 1
        self._entries: dict[str, KeyValue] = {}
        self._leases: dict[int, _Lease] = {}
        self._next_lease = 1
        self._watchers: list[tuple[str, asyncio.Queue[WatchEvent]]] = []

    def get(self, key: str) -> KeyValue | None:
        """Return one key."""
        return self._entries.get(key)

    def snapshot(self, prefix: str) -> RangeSnapshot:
        """Return all keys with the prefix, in key order."""
        entries = sorted(
            (entry for key, entry in self._entries.items() if key.startswith(prefix)),
            key=lambda entry: entry.key,
        )
        return RangeSnapshot(tuple(entries), self._revision)

    def commit(
        self, guards: Sequence[Guard], operations: Sequence[Put | Delete], lease_id: int
    ) -> int | None:
        """Apply all operations in one revision if all guards hold, else return None.

        Raises:
            CoordinationError: A put names a lease that is gone; nothing was applied.
        """
        if not all(self._holds(guard) for guard in guards):
            return None
        for each in operations:
            if isinstance(each, Put) and each.lease_id and each.lease_id not in self._leases:
                raise CoordinationError(f"{each.key}: lease {each.lease_id:x} is gone")
        events: list[WatchEvent] = []
        revision = self._revision + 1
        for operation in operations:
            if isinstance(operation, Put):
                events.append(self._put(operation, lease_id, revision))
            else:
                events.extend(self._delete(operation, revision))
        if events:
            self._revision = revision
            self._publish(events)
        return self._revision

    def grant(self, ttl_ms: int) -> int:
        """Create a lease and return its id."""
        lease_id = self._next_lease
        self._next_lease += 1
        lease = _Lease(ttl_ms, self.clock.now_ms() + ttl_ms)
        self._leases[lease_id] = lease
        lease.timer = asyncio.create_task(self._expire(lease_id), name=f"lease {lease_id:x}")
        return lease_id

    def has_lease(self, lease_id: int) -> bool:
        """Return whether a lease lives."""
        return lease_id in self._leases

    def keep_alive(self, lease_id: int) -> bool:
        """Renew a lease; return False if it is gone."""
        lease = self._leases.get(lease_id)
        if lease is None:
            return False
        lease.expires_ms = self.clock.now_ms() + lease.ttl_ms
        return True

    def revoke(self, lease_id: int) -> None:
        """End a lease and delete its keys; an unknown one is fine."""
        lease = self._leases.pop(lease_id, None)
        if lease is None:
            return
        if lease.timer is not None:
            lease.timer.cancel()
        if lease.keys:
            self.commit([], [Delete(key) for key in sorted(lease.keys)], 0)

    def subscribe(self, prefix: str) -> "tuple[asyncio.Queue[WatchEvent], RangeSnapshot]":
        """Return a queue of all later changes, and what stands now."""
        queue: asyncio.Queue[WatchEvent] = asyncio.Queue()
        self._watchers.append((prefix, queue))
        return queue, self.snapshot(prefix)

    def unsubscribe(self, queue: "asyncio.Queue[WatchEvent]") -> None:
        """Forget a queue."""
        self._watchers = [watcher for watcher in self._watchers if watcher[1] is not queue]

    async def close(self) -> None:
        """End all leases, without events."""
        timers = [lease.timer for lease in self._leases.values() if lease.timer is not None]
        self._leases.clear()
        for timer in timers:
            timer.cancel()
        await asyncio.gather(*timers, return_exceptions=True)

    def _holds(self, guard: Guard) -> bool:
        entry = self._entries.get(guard.key)
        if guard.create_revision is not None:
            return (entry.create_revision if entry else 0) == guard.create_revision
        return (entry.mod_revision if entry else 0) == guard.mod_revision

    def _put(self, put: Put, lease_id: int, revision: int) -> WatchEvent:
        old = self._entries.get(put.key)
        lease = lease_id if put.leased else put.lease_id
        if old is not None and old.lease_id in self._leases:
            self._leases[old.lease_id].keys.discard(put.key)
        entry = KeyValue(
            put.key,
            put.value,
            create_revision=old.create_revision if old else revision,
            mod_revision=revision,
            version=old.version + 1 if old else 1,
            lease_id=lease,
        )
        self._entries[put.key] = entry
        if lease:
            self._leases[lease].keys.add(put.key)
        return WatchEvent(put.key, entry, revision)

    def _delete(self, delete: Delete, revision: int) -> list[WatchEvent]:
        keys = (
            sorted(key for key in self._entries if key.startswith(delete.key))
            if delete.prefix
            else [delete.key]
        )
        events = []
        for key in keys:
            entry = self._entries.pop(key, None)
            if entry is None:
                continue
            if entry.lease_id in self._leases:
                self._leases[entry.lease_id].keys.discard(key)
            events.append(WatchEvent(key, None, revision))
        return events

    def _publish(self, events: Sequence[WatchEvent]) -> None:
        for prefix, queue in self._watchers:
            for event in events:
                if event.key.startswith(prefix):
                    queue.put_nowait(event)

    async def _expire(self, lease_id: int) -> None:
        while (lease := self._leases.get(lease_id)) is not None:
            left_ms = lease.expires_ms - self.clock.now_ms()
            if left_ms <= 0:
                lease.timer = None
                self.revoke(lease_id)
                return
            await self.clock.sleep_ms(left_ms)
