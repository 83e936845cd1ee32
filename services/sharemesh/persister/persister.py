"""Durable state of share partitions, from afar: lookup, coalescing, retries (spec PER)."""

import random
from dataclasses import replace

from sharemesh.backoff import Backoff
from sharemesh.domain.errors import ErrorCode, coordinator_moved
from sharemesh.domain.ids import NodeId, SharePartitionKey
from sharemesh.domain.packed_batches import PackedBatches
from sharemesh.domain.share_state.snapshot_parts import packed_whatever
from sharemesh.domain.state_batch import StateBatch
from sharemesh.persister import rpcs
from sharemesh.persister.request_batcher import PersisterSettings, RequestBatcher
from sharemesh.persister.rpcs import PartitionRead, Result, Rpc
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.network import Caller
from sharemesh.ports.share_state import (
    RecordHistoryResult,
    StateReadResult,
    StateSummaryResult,
    StateWrite,
    StateWriteResult,
)
from sharemesh.remembered import Remembered

_KNOWN_KEYS_BYTES = 8 * 1024 * 1024
"""Of share partitions whose shards are remembered: their number is fixed."""

_NOT_SOONER = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of the way to the coordinator, and of its log: retried like those of one that moved (spec
PER-6), but not sooner."""


class Persister:
    """Used by share leaders and group coordinators alike; fills ``ports.share_state``.

    Results carry the coordinator's own errors; nothing is raised for them. A retry goes out as
    soon as the view shows another coordinator, at the latest after Kafka's back-off; while a
    coordinator loads or does not know better it is asked every ``probe_ms`` in between. An unknown
    topic is asked for again only while this node knows it: that of a deletion is an answer.
    """

    def __init__(
        self,
        caller: Caller,
        view: ClusterView,
        clock: Clock,
        rng: random.Random,
        settings: PersisterSettings | None = None,
    ) -> None:
        """``rng`` makes the jitter."""
        self._view = view
        self._clock = clock
        self._rng = rng
        self._settings = settings or PersisterSettings()
        self._lanes = RequestBatcher(caller, self._settings)
        self._shards_of = Remembered[SharePartitionKey, int](_KNOWN_KEYS_BYTES)

    async def initialize_state(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        batches: tuple[StateBatch, ...] = (),
    ) -> StateWriteResult:
        """Begin a state epoch (spec SC-9), that of an import with delivery states (spec OLD)."""
        return await self._ask(rpcs.INITIALIZE, key, (state_epoch, start_offset, batches))

    async def read_state(
        self, key: SharePartitionKey, leader_epoch: int, handing_over: int = 0
    ) -> StateReadResult:
        """Return the stored state and raise its leader epoch (spec SC-10).

        A large state comes in parts; if it changed meanwhile they are read again (WIN-15).
        The last write of the leader of epoch ``handing_over`` is awaited (HND-13).
        """
        for _ in range(self._settings.attempts):
            whole = await self._read_parts(key, leader_epoch, handing_over)
            if whole is not None:
                return whole
        return StateReadResult(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the state changed while it was read; try again"
        )

    async def _read_parts(
        self, key: SharePartitionKey, leader_epoch: int, handing_over: int
    ) -> StateReadResult | None:
        """Return a state or an error; None: its parts do not belong together."""
        first = part = await self._ask(rpcs.READ, key, PartitionRead(leader_epoch, 0, handing_over))
        if part.next_offset < 0:
            return part
        parts = [packed_whatever(part.batches)]
        while part.next_offset >= 0:
            from_offset = part.next_offset
            part = await self._ask(rpcs.READ, key, PartitionRead(leader_epoch, from_offset))
            if part.error:
                return part
            if (part.state_epoch, part.start_offset) != (first.state_epoch, first.start_offset):
                return None
            if part.batches and part.batches[0].first_offset < from_offset:
                return None  # a late write of this leader joined it to the part before
            parts.append(packed_whatever(part.batches))
        return replace(first, batches=PackedBatches.joined(parts), next_offset=-1)

    async def write_state(self, key: SharePartitionKey, write: StateWrite) -> StateWriteResult:
        """Return once the write is durable, or refused, or the attempts are used up."""
        return await self._ask(rpcs.WRITE, key, write)

    async def delete_state(self, key: SharePartitionKey, state_epoch: int = 0) -> StateWriteResult:
        """Delete state; with a positive ``state_epoch`` only if it is not of a later one."""
        return await self._ask(rpcs.DELETE, key, state_epoch)

    async def read_summary(self, key: SharePartitionKey) -> StateSummaryResult:
        """Return the stored offsets without batches (spec SC-20)."""
        return await self._ask(rpcs.SUMMARY, key, 0)

    async def read_history(
        self, key: SharePartitionKey, offset: int, principal: str, leader_epoch: int
    ) -> RecordHistoryResult:
        """Return what became of one record, as far as its share coordinator keeps that."""
        return await self._ask(rpcs.HISTORY, key, (offset, principal, leader_epoch))

    async def close(self) -> None:
        """Stop pending requests; every waiting call gets a result."""
        await self._lanes.close()

    async def _ask(self, rpc: Rpc[Result], key: SharePartitionKey, item: object) -> Result:
        view = self._view
        shard = self._shards_of.answer(key, (key.group_id,), lambda: view.share_shard(key))
        settings = self._settings
        spread = settings.backoff_jitter
        backoff = Backoff(
            settings.backoff_initial_ms,
            settings.backoff_max_ms,
            self._rng,
            jitter=(1 - spread, 1 + spread),
        )
        for attempt in range(settings.attempts):
            last = attempt == settings.attempts - 1
            until_ms = self._clock.now_ms() + (0 if last else backoff.next_ms())
            while True:
                node_id, result = await self._once(rpc, shard, key, item)
                if last or self._lanes.closed or not self._may_succeed(key, result.error):
                    return result
                wait_ms = max(0, until_ms - self._clock.now_ms())
                if node_id is not None and result.error not in _NOT_SOONER:
                    wait_ms = min(wait_ms, settings.probe_ms)
                await self._until_another(shard, node_id, wait_ms)
                if self._clock.now_ms() >= until_ms:
                    break
        return result

    def _may_succeed(self, key: SharePartitionKey, error: ErrorCode) -> bool:
        """Return whether to ask again; a topic that is gone here too is not waited for."""
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            topic = self._view.topic(key.topic_id)
            return topic is not None and key.partition < topic.partitions
        return coordinator_moved(error) or error in _NOT_SOONER

    async def _once(
        self,
        rpc: Rpc[Result],
        shard: int,
        key: SharePartitionKey,
        item: object,
    ) -> tuple[NodeId | None, Result]:
        node = self._view.share_coordinator(shard)
        if node is None:
            return None, rpc.failed(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"state shard {shard} has no share coordinator now",
            )
        return node.node_id, await self._lanes.ask(rpc, node.address, key, item)

    async def _until_another(self, shard: int, tried: NodeId | None, timeout_ms: int) -> None:
        """Wait until the view shows another coordinator than the one that was tried."""

        def another() -> bool:
            node = self._view.share_coordinator(shard)
            return node is not None and node.node_id != tried

        await self._view.wait_for(another, timeout_ms=timeout_ms)
