"""The shards of one kind that this process serves; what the shard elections drive."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.clock import Clock
from sharemesh.ports.shard_log import ShardLog, ShardLogs
from sharemesh.runtime.shard import CoordinatorShard
from sharemesh.runtime.shard_kind import (
    Machine,
    Record,
    RuntimeLimits,
    ShardDefinition,
    load_machine,
)
from sharemesh.runtime.shard_telemetry import ShardTelemetry
from sharemesh.telemetry.telemetry import Telemetry, without_export


class ShardSet(Generic[Machine, Record]):
    """Fills ``ports.cluster.ShardHost``: takes shards over, loads them, gives them up."""

    def __init__(
        self,
        kind: ShardDefinition[Machine, Record],
        logs: ShardLogs,
        clock: Clock,
        limits: RuntimeLimits,
        *,
        on_loaded: Callable[[CoordinatorShard[Machine, Record]], None] | None = None,
        on_stopping: Callable[[CoordinatorShard[Machine, Record]], Awaitable[None]] | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """``on_loaded`` is called before the first request: start jobs and timers there.

        ``on_stopping`` is awaited before a shard is given up in order, while it still serves.
        """
        self._kind = kind
        self._logs = logs
        self._clock = clock
        self._limits = limits
        self._on_loaded = on_loaded
        self._on_stopping = on_stopping
        self._shards: dict[int, CoordinatorShard[Machine, Record] | None] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._ended_callbacks: list[Callable[[int], None]] = []
        self._logger = logging.getLogger(f"sharemesh.{kind.name}")
        known = telemetry or without_export(lambda: clock.wall_ms() * 1_000_000)
        self._telemetry = ShardTelemetry(known, kind.name)
        self._telemetry.register(self.served, self._loading_count)

    def shard(self, index: int) -> CoordinatorShard[Machine, Record]:
        """Return a shard that is served, or that was until its epoch ended by itself.

        Raises:
            RefusedError: NOT_COORDINATOR if it is not ours, COORDINATOR_LOAD_IN_PROGRESS while
                it loads. Requests to a shard that ended are refused by the shard.
        """
        found = self._shards.get(index)
        if found is not None:
            return found
        name = f"shard {self._kind.name}-{index}"
        if index in self._shards:
            raise RefusedError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{name} is loading; try again soon"
            )
        raise RefusedError(
            ErrorCode.NOT_COORDINATOR, f"{name} is not served here; look it up again"
        )

    def served(self) -> tuple[CoordinatorShard[Machine, Record], ...]:
        """Return the shards served now, by number."""
        return tuple(
            found
            for _, found in sorted(self._shards.items())
            if isinstance(found, CoordinatorShard)
        )

    def _loading_count(self) -> int:
        return sum(found is None for found in self._shards.values())

    def on_ended(self, callback: Callable[[int], None]) -> None:
        """Register what is called with the shard when its epoch ended by itself."""
        self._ended_callbacks.append(callback)

    async def start_shard(self, shard: int, epoch: int) -> None:
        """Take the log over under ``epoch`` and load it; relinquish an older epoch of it first.

        Raises:
            FencedError: A fence at or above ``epoch`` exists.
            CorruptLogError, LogFailedError: The log cannot be served.
        """
        async with self._turns.setdefault(shard, asyncio.Lock()):
            await self._give_up(shard)
            began_ns = self._telemetry.now_ns()
            self._shards[shard] = None  # loading
            try:
                loaded = await self._load(shard, epoch)
            except BaseException:
                self._shards.pop(shard, None)
                raise
            loaded.start(lambda: self._ended(shard, loaded))
            self._shards[shard] = loaded
            self._telemetry.loaded(shard, epoch, began_ns)
            if self._on_loaded is not None:
                self._on_loaded(loaded)

    async def stop_shard(self, shard: int, *, orderly: bool = False) -> None:
        """Give a shard up; returns when nothing of it can be confirmed any more."""
        async with self._turns.setdefault(shard, asyncio.Lock()):
            found = self._shards.get(shard)
            if orderly and found is not None and self._on_stopping is not None:
                await self._on_stopping(found)
            await self._give_up(shard)

    async def close(self) -> None:
        """Give all shards up."""
        await asyncio.gather(*(self.stop_shard(shard) for shard in list(self._shards)))

    async def _load(self, shard: int, epoch: int) -> CoordinatorShard[Machine, Record]:
        log: ShardLog = await self._logs.open(self._kind.name, shard, epoch)
        try:
            machine = self._kind.new_machine(shard)
            await load_machine(self._kind, shard, machine, log, self._clock, self._limits)
        except BaseException:
            await log.close()
            raise
        return CoordinatorShard(
            self._kind, shard, log, machine, self._clock, self._limits, self._telemetry
        )

    async def _give_up(self, shard: int) -> None:
        found = self._shards.pop(shard, None)
        if found is not None:
            await found.stop()

    def _ended(self, index: int, ended: CoordinatorShard[Machine, Record]) -> None:
        if self._shards.get(index) is not ended:
            return
        for callback in self._ended_callbacks:
            callback(index)
