"""Periodic work of a share coordinator: cold snapshots, pruning, state of deleted topics."""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from sharemesh.domain.ids import SharePartitionKey, TopicId
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import StateRecord
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.runtime.shard import TO_NEXT_PERIOD
from sharemesh.runtime.shard_kind import Decision
from sharemesh.share_coordinator.generations import drop_generation
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.share_coordinator.shard_kind import StateShard

_KEYS_PER_BATCH = 20  # of cold snapshots: one decision of large states would hold the loop
_KEYS_PER_FOLD = 2
_FOLD_PAUSE_MS = 5
_REFUSED_PAUSE_MS = 10_000  # a try encodes all of a large state, and each request would begin one


class Maintenance:
    """The periodic jobs of one shard; they stop with the shard."""

    def __init__(
        self,
        shard: StateShard,
        view: ClusterView,
        clock: Clock,
        settings: ShareCoordinatorSettings,
    ) -> None:
        self._shard = shard
        self._view = view
        self._clock = clock
        self._settings = settings
        self._missing_since_ms: dict[TopicId, int] = {}
        self._says_again = False
        self._refused_until_ms = clock.now_ms()
        self._logger = logging.getLogger(f"sharemesh.state-{shard.index}")

    def start(self) -> None:
        """Begin: each job runs one interval from now for the first time (spec SC-24, SC-26)."""
        settings = self._settings
        self._shard.start_job("folding the backlog", self.fold_backlog())
        self._shard.every(settings.cold_snapshot_interval_ms, "cold snapshots", self.snapshot_cold)
        self._shard.every(settings.cold_snapshot_interval_ms, "lost topics", self.sweep_topics)
        self._shard.every(settings.prune_interval_ms, "pruning", self.prune)

    async def fold_backlog(self) -> None:
        """Fold what the load left, a little at a time between requests."""
        while self._shard.peek(lambda machine: machine.fold_backlog(_KEYS_PER_FOLD)):
            await self._clock.sleep_ms(_FOLD_PAUSE_MS)

    async def snapshot_cold(self) -> None:
        """Snapshot states without a recent snapshot, so that pruning can advance (SC-24)."""
        now_ms = self._clock.wall_ms()
        interval_ms = self._settings.cold_snapshot_interval_ms
        keys = await self._shard.read(
            lambda machine: machine.cold_keys(now_ms=now_ms, interval_ms=interval_ms)
        )
        for at in range(0, len(keys), _KEYS_PER_BATCH):
            await self._snapshot(keys[at : at + _KEYS_PER_BATCH], now_ms)
        await self._shard.write(partial(_cold_floor, now_ms=now_ms, interval_ms=interval_ms))

    async def _snapshot(self, keys: Sequence[SharePartitionKey], now_ms: int) -> None:
        """Snapshot keys, those of large states one at a time."""
        while keys:
            done = await self._shard.write(partial(_cold_snapshots, keys=keys, now_ms=now_ms))
            keys = keys[done:]

    def snapshot_large(self) -> None:
        """Snapshot the large states that had enough updates, unless that is under way (WIN-13).

        After one that was refused, as while the volume is full, there is a pause.
        """
        if self._says_again or not self._shard.peek(_large_due):
            return
        if self._clock.now_ms() >= self._refused_until_ms:
            self._says_again = True
            self._shard.start_job(
                "snapshots in parts", self._snapshot_large(), put_off=TO_NEXT_PERIOD
            )

    async def _snapshot_large(self) -> None:
        try:
            while keys := self._shard.peek(_large_due):
                await self._snapshot(keys, self._clock.wall_ms())
        except Exception:
            self._refused_until_ms = self._clock.now_ms() + _REFUSED_PAUSE_MS
            raise
        finally:
            self._says_again = False

    async def prune(self) -> None:
        """Delete what is redundant, no more than the prune limit allows (SC-26, LOG-21)."""
        now_ms = self._clock.wall_ms()
        grace_ms = self._settings.generation_grace_ms
        await self._leave_stale_generation(now_ms=now_ms, grace_ms=grace_ms)
        dropped, limit = await self._shard.write(
            partial(_prune_limit, now_ms=now_ms, grace_ms=grace_ms)
        )
        if dropped:
            self._logger.warning(
                "generation %s was not renewed in %d ms; it no longer stops pruning",
                dropped,
                grace_ms,
            )
        if limit is not None and limit > self._shard.log_start_offset:
            await self._shard.delete_before(limit)

    async def _leave_stale_generation(self, *, now_ms: int, grace_ms: int) -> None:
        """Snapshot into the log what a generation about to be dropped alone holds."""
        stale = self._shard.peek(
            lambda machine: (
                machine.generation is not None
                and now_ms - machine.generation.pointer.write_timestamp_ms >= grace_ms
            )
        )
        while stale and (keys := self._shard.peek(lambda m: m.restored_keys(_KEYS_PER_BATCH))):
            await self._snapshot(keys, now_ms)
        if stale:
            await self._shard.write(partial(_restored_floor, now_ms=now_ms))

    async def sweep_topics(self) -> None:
        """Delete the state of topics that are unknown for a whole interval, and for their grace.

        They were deleted while nobody watched. The view must be alive: it knows this cluster's
        nodes.
        """
        if not self._view.nodes():
            return
        with_state = await self._shard.read(lambda machine: machine.topic_ids())
        now_ms, before = self._clock.now_ms(), self._missing_since_ms
        missing = {t: before.get(t, now_ms) for t in with_state if self._view.topic(t) is None}
        grace_ms = self._settings.topic_grace_ms
        gone = [
            t for t, since_ms in missing.items() if t in before and now_ms - since_ms >= grace_ms
        ]
        self._missing_since_ms = missing
        await self.delete_topics(gone)

    def topics_come(self, topic_ids: Iterable[TopicId]) -> None:
        """Begin the grace of these topics anew when they are missed again (KTP-10)."""
        for topic_id in topic_ids:
            self._missing_since_ms.pop(topic_id, None)

    async def delete_topics(self, topic_ids: Iterable[TopicId]) -> None:
        """Write tombstones for all keys of these topics, unless one is back (SC-25, KTP-10)."""
        gone = frozenset(topic_ids)
        limit = self._settings.keys_per_decision
        left = len(gone)
        while left:
            gone = frozenset(t for t in gone if self._view.topic(t) is None)
            left = await self._shard.write(
                partial(_tombstones, gone=gone, limit=limit, now_ms=self._clock.wall_ms())
            )


class TopicWatch:
    """Calls back with topics that this process has seen and that are gone, and with new ones.

    A topic that was never seen is never reported as gone: a view that is still empty deletes
    nothing.
    """

    def __init__(
        self,
        view: ClusterView,
        on_gone: Callable[[frozenset[TopicId]], None],
        on_come: Callable[[frozenset[TopicId]], None],
    ) -> None:
        self._view = view
        self._on_gone = on_gone
        self._on_come = on_come
        self._seen: frozenset[TopicId] = frozenset()
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._unsubscribe = self._view.on_change(self._changed)
        self._changed()

    def close(self) -> None:
        """Stop. Repeating it is fine."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _changed(self) -> None:
        present = frozenset(topic.topic_id for topic in self._view.topics())
        gone, come = self._seen - present, present - self._seen
        self._seen = present
        if gone:
            self._on_gone(gone)
        if come:
            self._on_come(come)


def _cold_snapshots(
    machine: ShareStateMachine, *, keys: Sequence[SharePartitionKey], now_ms: int
) -> Decision[StateRecord, int]:
    """Return snapshots of some of the first keys, and of how many."""
    made: list[StateRecord] = []
    for done, key in enumerate(keys, 1):
        snapshots = machine.cold_snapshot(key, now_ms=now_ms)
        made += snapshots
        if len(snapshots) > 1:
            return Decision(made, done, divisible=True)
    return Decision(made, len(keys), divisible=True)


def _large_due(machine: ShareStateMachine) -> tuple[SharePartitionKey, ...]:
    return machine.large_snapshots_due(1)


def _cold_floor(
    machine: ShareStateMachine, *, now_ms: int, interval_ms: int
) -> Decision[StateRecord, None]:
    floor = machine.cold_floor(now_ms=now_ms, interval_ms=interval_ms)
    return Decision(() if floor is None else (floor,), None)


def _restored_floor(machine: ShareStateMachine, *, now_ms: int) -> Decision[StateRecord, None]:
    floor = machine.restored_floor(now_ms=now_ms)
    return Decision(() if floor is None else (floor,), None)


def _prune_limit(
    machine: ShareStateMachine, *, now_ms: int, grace_ms: int
) -> Decision[StateRecord, tuple[str, int | None]]:
    """Take a stale generation back; a pointer that was there still counts in this run."""
    stale = drop_generation(machine, now_ms=now_ms, grace_ms=grace_ms)
    if stale is None:
        return Decision((), ("", machine.prune_limit))
    return Decision((stale,), (stale.previous_generation_id, machine.prune_limit))


def _tombstones(
    machine: ShareStateMachine, *, gone: frozenset[TopicId], limit: int, now_ms: int
) -> Decision[StateRecord, int]:
    """Delete up to ``limit`` keys and return how many are left."""
    found = machine.topics_deleted(gone, now_ms=now_ms)
    return Decision(found[:limit], max(0, len(found) - limit))
