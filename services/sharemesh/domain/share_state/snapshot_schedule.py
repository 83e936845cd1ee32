"""When the state of a share partition is written whole again (SC-13, SC-14, SC-24, WIN-13)."""

from collections.abc import Iterable
from itertools import islice

from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_state.fold import ShareState

DEFAULT_UPDATES_PER_SNAPSHOT = 500

LARGE_BATCHES = 10_000
"""Snapshots of states with more batches come in parts (WIN-12)."""

_BATCHES_PER_UPDATE = 100  # a large state's snapshot costs as much as so many updates


class SnapshotSchedule:
    """Counts the updates since the last snapshot, by share partition."""

    def __init__(self, updates_per_snapshot: int, large_batches: int) -> None:
        self._updates_per_snapshot = updates_per_snapshot
        self._large_batches = large_batches
        self._updates: dict[SharePartitionKey, int] = {}
        self._due: dict[SharePartitionKey, None] = {}
        self._said_again_ms: dict[SharePartitionKey, int] = {}

    def is_large(self, batches: int) -> bool:
        """Whether the snapshot of a state with so many batches comes in parts."""
        return batches > self._large_batches

    def is_due(self, key: SharePartitionKey, batches: int) -> bool:
        """Whether the next record is a snapshot (SC-13); one in parts never is."""
        return (
            self._updates.get(key, 0) >= self._updates_per_snapshot
            and batches <= self._large_batches
        )

    def large_due(self, limit: int) -> tuple[SharePartitionKey, ...]:
        """Return up to ``limit`` keys whose large state is to be said again (WIN-13)."""
        return tuple(islice(self._due, limit))

    def updated(self, key: SharePartitionKey, updates: int, batches: int) -> None:
        """There were updates, after which the state has so many batches."""
        count = self._updates[key] = self._updates.get(key, 0) + updates
        if batches > self._large_batches:
            if count >= max(1, self._updates_per_snapshot, batches // _BATCHES_PER_UPDATE):
                self._due[key] = None
        elif self._due:
            self._due.pop(key, None)

    def snapshot(self, key: SharePartitionKey, unread_updates: int) -> None:
        """There was a snapshot, after updates of which some were not counted (SC-14)."""
        updates = self._updates.get(key, 0) + unread_updates
        self.deleted(key)
        self._updates[key] = 0 if updates >= self._updates_per_snapshot else updates

    def said_again(self, key: SharePartitionKey, made_ms: int) -> None:
        """There was a snapshot in parts."""
        self._updates[key] = 0
        self._due.pop(key, None)
        self._said_again_ms[key] = made_ms

    def deleted(self, key: SharePartitionKey) -> None:
        """The state is gone."""
        self._updates.pop(key, None)
        self._due.pop(key, None)
        self._said_again_ms.pop(key, None)

    def cold_keys(
        self,
        states: Iterable[tuple[SharePartitionKey, ShareState]],
        *,
        now_ms: int,
        interval_ms: int,
    ) -> tuple[SharePartitionKey, ...]:
        """Return keys that need a cold snapshot: the last one is ``interval_ms`` old (SC-24).

        None if all keys are cold already: their creation and write times differ, or nothing was
        written since they were said again.
        """
        again_ms = self._said_again_ms
        found, is_any_warm = [], False
        for key, state in states:
            is_any_warm = is_any_warm or (
                state.create_timestamp_ms == state.write_timestamp_ms
                and (key not in again_ms or self._updates[key] > 0)
            )
            if now_ms - max(state.write_timestamp_ms, again_ms.get(key, 0)) >= interval_ms:
                found.append(key)
        return tuple(found) if is_any_warm else ()
