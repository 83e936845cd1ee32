"""Claims that are taken, or given back, at the same time go to the store in one transaction."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sharemesh.ports.coordination import (
    GUARDS_MAX,
    OPERATIONS_MAX,
    Coordination,
    CoordinationError,
    Delete,
    Guard,
    Put,
    Session,
)
from sharemesh.tasks import cancel_and_wait


class _QueuedClaim(NamedTuple):
    guards: Sequence[Guard]
    operations: Sequence[Put | Delete]
    done: asyncio.Future[int | None]


TRANSACTIONS_MAX = 4  # of one session on their way
_Lane = deque[_QueuedClaim]


class ClaimWriter:
    """What comes in one turn of the loop, or while enough are on their way, goes together.

    A drained or lost node moves hundreds of claims at once: one by one they would cost the store
    a sync each, and every process a message each. A transaction that was overtaken is
    repeated part by part, so that each caller gets the answer for its own guards.
    """

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination
        self._lanes: dict[Session | None, _Lane] = {}
        self._tasks: dict[asyncio.Task[None], Session | None] = {}

    async def commit(
        self,
        guards: Sequence[Guard],
        operations: Sequence[Put | Delete],
        *,
        session: Session | None = None,
    ) -> int | None:
        """As ``Coordination.commit``; the revision may be shared with others.

        Raises:
            SessionLostError: ``session`` is lost.
            CoordinationError: The outcome is unknown, or the store cannot be reached.
        """
        done: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        lane = self._lanes.setdefault(session, deque())
        lane.append(_QueuedClaim(guards, operations, done))
        if sum(other is session for other in self._tasks.values()) < TRANSACTIONS_MAX:
            task = asyncio.create_task(self._run(session, lane), name="claim writer")
            self._tasks[task] = session
            task.add_done_callback(self._ended)
        return await done

    async def close(self) -> None:
        """Cancel pending transactions; the claims that wait for them must have ended before."""
        await cancel_and_wait(*self._tasks)

    async def _run(self, session: Session | None, lane: _Lane) -> None:
        while lane:
            part = _next_part(lane)
            try:
                await self._commit(part, session)
            finally:
                _give_up(part)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Nobody waits for a lane that has no task, not even if that was cancelled unbegun."""
        session = self._tasks.pop(task)
        if any(other is session for other in self._tasks.values()):
            return
        lane = self._lanes.pop(session)
        if task.cancelled():
            _give_up(lane)
        elif lane:  # it came after the last look
            self._lanes[session] = lane
            again = asyncio.create_task(self._run(session, lane), name="claim writer")
            self._tasks[again] = session
            again.add_done_callback(self._ended)

    async def _commit(self, part: list[_QueuedClaim], session: Session | None) -> None:
        try:
            revision = await self._coordination.commit(
                [guard for each in part for guard in each.guards],
                [operation for each in part for operation in each.operations],
                session=session,
            )
        except Exception as error:  # whatever it is, those who wait must hear of it
            for each in part:
                if not each.done.done():
                    each.done.set_exception(error)
            return
        if revision is None and len(part) > 1:  # one of them was overtaken: the others may stand
            await asyncio.gather(*(self._commit([each], session) for each in part))
            return
        for each in part:
            if not each.done.done():
                each.done.set_result(revision)


def _give_up(waiting: Iterable[_QueuedClaim]) -> None:
    for each in waiting:
        if not each.done.done():
            each.done.set_exception(CoordinationError("the claims of this process ended"))


def _next_part(lane: deque[_QueuedClaim]) -> list[_QueuedClaim]:
    """Take what fits one transaction, at least one; cancelled callers are left out."""
    part: list[_QueuedClaim] = []
    guards = operations = 0
    while lane:
        guards += len(lane[0].guards)
        operations += len(lane[0].operations)
        if part and (guards > GUARDS_MAX or operations > OPERATIONS_MAX):
            break
        each = lane.popleft()
        if not each.done.done():
            part.append(each)
    return part
