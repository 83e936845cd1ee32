"""Locks that draining leaders leave for their successors, at the share coordinator (spec HND)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sharemesh.domain.handed_lock import HANDED_LOCKS_MAX, HandedLock
from sharemesh.domain.ids import SharePartitionKey

KEPT_LOCKS_MAX = 100_000
"""Locks that one share coordinator keeps at a time; hand-overs beyond lapse (HND-8)."""

KEPT_BYTES_MAX = 16 * 1024 * 1024
"""Their size: all of them may be asked for by one request, and fit into its answer."""


@dataclass(slots=True)
class _KeptLocks:
    """One hand-over; ``taken_by`` is the leader epoch that it was given to, 0: none yet."""

    state_epoch: int
    leader_epoch: int
    locks: tuple[HandedLock, ...]
    size_bytes: int
    kept_ms: int
    taken_by: int = 0

    @property
    def count(self) -> int:
        """What it counts against the bound: one without locks is remembered, too."""
        return max(1, len(self.locks))


class HandOvers:
    """In memory only: what a coordinator loses with its process lapses, as after a kill.

    Who asks has decided, in the same step, on a read or write of the share partition that was not
    refused; so what is kept here is in the order of the state log.
    """

    def __init__(self) -> None:
        self._kept: dict[SharePartitionKey, _KeptLocks] = {}
        self._count = self._bytes = 0

    def __len__(self) -> int:
        """How many locks are kept; a hand-over without any counts as one."""
        return self._count

    def keep(
        self,
        key: SharePartitionKey,
        epochs: tuple[int, int],
        locks: Sequence[HandedLock],
        now_ms: int,
    ) -> bool:
        """Keep what a leader hands over under a state epoch and leader epoch; False: no room."""
        self._drop(key)
        size_bytes = sum(lock.size_bytes for lock in locks)
        new = _KeptLocks(*epochs, tuple(locks), size_bytes, now_ms)
        if not self._has_room(new.count, size_bytes):
            for each in [each for each, kept in self._kept.items() if _is_over(kept, now_ms)]:
                self._drop(each)
        if len(locks) > HANDED_LOCKS_MAX or not self._has_room(new.count, size_bytes):
            return False
        self._kept[key] = new
        self._count += new.count
        self._bytes += size_bytes
        return True

    def has_ended(self, key: SharePartitionKey, leader_epoch: int) -> bool:
        """Return whether the last write of this leader is known (HND-13)."""
        kept = self._kept.get(key)
        return kept is not None and kept.leader_epoch == leader_epoch

    def awaited(self, now_ms: int) -> Iterator[SharePartitionKey]:
        """Yield share partitions with locks that still run, and that nobody has asked for yet."""
        for key, kept in self._kept.items():
            if kept.locks and not kept.taken_by and not _is_over(kept, now_ms):
                yield key

    def _has_room(self, count: int, size_bytes: int) -> bool:
        return self._count + count <= KEPT_LOCKS_MAX and self._bytes + size_bytes <= KEPT_BYTES_MAX

    def written(self, key: SharePartitionKey, leader_epoch: int) -> None:
        """A leader wrote: one after the hand-over has begun to decide, so that it is used up."""
        kept = self._kept.get(key)
        if kept is not None and leader_epoch != kept.leader_epoch:
            self._drop(key)

    def take(
        self,
        key: SharePartitionKey,
        reader_epoch: int,
        state_epoch: int,
        known_epoch: int,
        now_ms: int,
    ) -> tuple[HandedLock, ...]:
        """Return what a read of the state brings, with the time that is left (HND-7).

        ``known_epoch`` is the highest leader epoch that read before. A repeated read of the one
        that got it gets it again: the first answer may be lost.
        """
        kept = self._kept.get(key)
        if kept is None or reader_epoch == kept.leader_epoch == known_epoch:
            return ()
        if not _is_for(kept, reader_epoch, state_epoch, known_epoch):
            self._drop(key)
            return ()
        kept.taken_by = reader_epoch
        return tuple(_aged(kept, lock, now_ms) for lock in kept.locks)

    def lock_on(
        self,
        key: SharePartitionKey,
        offset: int,
        reader_epoch: int,
        state_epoch: int,
        known_epoch: int,
        now_ms: int,
    ) -> HandedLock | None:
        """Return the lock on a record that ``take`` would bring now; nothing changes (EXP-12)."""
        kept = self._kept.get(key)
        if kept is None or not _is_for(kept, reader_epoch, state_epoch, known_epoch):
            return None
        for lock in kept.locks:
            if lock.first_offset <= offset <= lock.last_offset:
                aged = _aged(kept, lock, now_ms)
                return aged if aged.remaining_ms > 0 else None
        return None

    def _drop(self, key: SharePartitionKey) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._count -= kept.count
            self._bytes -= kept.size_bytes


def _is_for(kept: _KeptLocks, reader_epoch: int, state_epoch: int, known_epoch: int) -> bool:
    """Whether the reader is the next leader: the first to read, or the same one again (HND-7)."""
    is_first = known_epoch == kept.leader_epoch < reader_epoch
    is_again = reader_epoch == known_epoch == kept.taken_by
    return kept.state_epoch == state_epoch and (is_first or is_again)


def _aged(kept: _KeptLocks, lock: HandedLock, now_ms: int) -> HandedLock:
    """Return a lock with the time that is left (HND-6)."""
    return lock._replace(remaining_ms=max(0, lock.remaining_ms - (now_ms - kept.kept_ms)))


def _is_over(kept: _KeptLocks, now_ms: int) -> bool:
    return all(kept.kept_ms + lock.remaining_ms <= now_ms for lock in kept.locks)
