"""Looks at the coordination store: is what this process leads still its own (port Ownership)?"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import election_name, partition_path
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.coordination import (
    Coordination,
    CoordinationError,
    KeyValue,
    RangeSnapshot,
)
from sharemesh.ports.shard_log import FencedError
from sharemesh.tasks import OwnedTasks, cancel_and_wait, first_done

READS_MAX = 2  # under way at a time: with one, who just missed it waits for twice as long
LOOK_TIMEOUT_MS = 5_000  # for one read; longer counts as fenced


class SharedReads:
    """One range read for all that asked before it began (STL-18).

    Args:
        read: Reads the range once.
        tasks: Where the reads run.
        clock: Bounds each read.
    """

    def __init__(
        self,
        read: Callable[[], Coroutine[Any, Any, RangeSnapshot]],
        tasks: OwnedTasks,
        clock: Clock,
    ) -> None:
        self._read = read
        self._tasks = tasks
        self._clock = clock
        self._under_way = 0
        self._next: asyncio.Future[RangeSnapshot] | None = None

    async def after_now(self) -> RangeSnapshot:
        """Return what a read found that began after this call.

        Raises:
            CoordinationError: The store did not answer, or this process stops.
        """
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._begin()
        return await asyncio.shield(self._next)

    def _begin(self) -> None:
        """Read in a task: who asks before it begins its work asks in time."""
        if self._under_way < READS_MAX:
            self._under_way += 1
            self._tasks.spawn_heard(self._work(), self._ended)

    async def _work(self) -> None:
        while self._next is not None:
            waiting, self._next = self._next, None
            try:
                found = await self._read_in_time()
            except BaseException as error:
                _fail(waiting, error)
                if not isinstance(error, Exception):
                    raise
            else:
                waiting.set_result(found)

    async def _read_in_time(self) -> RangeSnapshot:
        read = asyncio.create_task(self._read())
        try:
            await first_done(read, self._clock.sleep_ms(LOOK_TIMEOUT_MS))
            if not read.done():
                raise CoordinationError(f"no answer for {LOOK_TIMEOUT_MS} ms")
            return read.result()
        finally:
            await cancel_and_wait(read)

    def _ended(self, outcome: BaseException | None) -> None:
        """Hear that a task ended, a turn late: who came in between found all reads under way."""
        self._under_way -= 1
        if self._next is None:
            return
        if outcome is None:
            self._begin()
        elif not self._under_way:
            waiting, self._next = self._next, None
            _fail(waiting, outcome)


def _fail(waiting: "asyncio.Future[RangeSnapshot]", error: BaseException) -> None:
    if not isinstance(error, CoordinationError):
        error = CoordinationError(f"a look ended: {type(error).__name__}: {error}")
    waiting.set_exception(error)
    waiting.exception()  # those who waited may all be gone


class StoreOwnership:
    """Looks over ``Coordination``: two range reads, each shared by all who wait for it."""

    def __init__(
        self,
        coordination: Coordination,
        member: ClusterMember,
        view: WatchedView,
        clock: Clock,
    ) -> None:
        self._coordination = coordination
        self._member = member
        self._view = view
        self._member_key = view.keys.member(member.node.node_id)
        self._revision = 0
        self._tasks = OwnedTasks("ownership")
        self._epochs = SharedReads(partial(self._list, view.keys.epochs), self._tasks, clock)
        self._registration = SharedReads(partial(self._list, self._member_key), self._tasks, clock)

    async def still(self, kind: ShardKind, shard: int, epoch: int) -> None:
        """Return if the epoch in the store is ``epoch`` (STL-18).

        Raises:
            FencedError: It is another one or is missing, or the store did not answer.
        """
        name = election_name(kind, shard)
        stored = await self._found(self._epochs, self._view.keys.epoch(name), f"shard {name}")
        found = records.decode_number(stored.value)
        if found != epoch:
            raise FencedError(
                f"shard {name} has epoch {found} in the coordination store, not {epoch}",
                fence_epoch=found,
            )

    async def leads(self, partition: TopicPartition, epoch: int) -> None:
        """Return if the lease that holds our claims stands, and no other claim is seen (STL-19).

        Raises:
            FencedError: Otherwise, or the store did not answer.
        """
        name = f"partition {partition_path(partition)}"
        session = self._member.session
        if session is None:
            raise FencedError(f"{name}: this process has no session any more")
        stored = await self._found(self._registration, self._member_key, name)
        if stored.lease_id != session.lease_id:
            raise FencedError(f"{name}: this process was registered again under another lease")
        seen = self._view.tables.claims.get(partition)
        if seen is not None and self._is_anothers(seen.value, epoch):
            raise FencedError(
                f"{name} is led by {seen.value.node_id} under epoch {seen.value.leader_epoch}",
                fence_epoch=seen.value.leader_epoch,
            )

    async def close(self) -> None:
        """End looks under way; who waits for them is told that it is fenced."""
        await self._tasks.close()

    def _is_anothers(self, claim: records.Claim, epoch: int) -> bool:
        """Whether a claim came after ours; one of a lower epoch is a view that lags."""
        if claim.leader_epoch == epoch:
            return claim.node_id != self._member.node.node_id
        return claim.leader_epoch > epoch

    async def _found(self, reads: SharedReads, key: str, what: str) -> KeyValue:
        try:
            snapshot = await reads.after_now()
        except CoordinationError as error:
            raise FencedError(
                f"{what}: the coordination store does not say whether it is still led here: {error}"
            ) from error
        for each in snapshot.entries:
            if each.key == key:
                return each
        raise FencedError(f"{what}: the coordination store has no key {key}")

    async def _list(self, prefix: str) -> RangeSnapshot:
        """Read a range; a store that went back was restored, and knows nothing of our claims."""
        known = self._revision
        snapshot = await self._coordination.list(prefix)
        self._revision = max(self._revision, snapshot.revision)
        if snapshot.revision < known:
            self._revision = snapshot.revision
            raise CoordinationError(
                f"it went back from revision {known} to {snapshot.revision}: it was restored"
            )
        return snapshot
