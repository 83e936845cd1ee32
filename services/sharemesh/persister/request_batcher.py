"""Requests on their way, within bounds: what waits during a call goes into the next (PER-7)."""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey
from sharemesh.persister.rpcs import MisshapenResponseError, PartitionRead, Result, Rpc
from sharemesh.ports.network import Caller, CallFailedError, Failure
from sharemesh.ports.share_state import StateWrite
from sharemesh.tasks import cancel_and_wait

_log = logging.getLogger(__name__)

_ERRORS = {
    Failure.UNAVAILABLE: ErrorCode.NETWORK_EXCEPTION,
    Failure.CANCELLED: ErrorCode.NETWORK_EXCEPTION,
    Failure.DEADLINE_EXCEEDED: ErrorCode.REQUEST_TIMED_OUT,
    Failure.RESOURCE_EXHAUSTED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


@dataclass(frozen=True, slots=True)
class PersisterSettings:
    """Bounds of the persister (spec PER-6); times in ms, the back-off's numbers are Kafka's."""

    attempts: int = 5
    backoff_initial_ms: int = 1_000  # doubled with each attempt
    backoff_max_ms: int = 30_000
    backoff_jitter: float = 0.2  # of the wait, to both sides
    probe_ms: int = 50
    """While a coordinator is loading or unknown it is asked this often within a back-off."""
    request_timeout_ms: int = 6_000  # above the coordinator's own write time-out
    partitions_per_request: int = 1_000
    batches_per_request: int = 2_000
    """State batches of one write, unless one share partition has more (spec FAI-7): a share
    coordinator works on them for some 5 ms, in which it does nothing for other groups. Each half
    KiB of locks that are handed over counts as one (HND-8)."""
    queued_per_lane: int = 20_000  # share partitions waiting for one node, RPC and group


class _QueuedRequest(NamedTuple):
    key: SharePartitionKey
    item: object
    answered: asyncio.Future[Any]


class _Name(NamedTuple):
    """``alone`` is a read whose answer may wait: nothing else waits for it (HND-13)."""

    address: str
    method: str
    group_id: GroupId
    alone: SharePartitionKey | None


@dataclass(slots=True)
class _Lane:
    rpc: Rpc[Any]
    waiting: deque[_QueuedRequest] = field(default_factory=deque)
    under_way: list[_QueuedRequest] = field(default_factory=list)


class RequestBatcher:
    """One lane for each node, RPC and group that has something under way."""

    def __init__(self, caller: Caller, settings: PersisterSettings) -> None:
        self._caller = caller
        self._settings = settings
        self._lanes: dict[_Name, _Lane] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._closed = False

    async def ask(
        self, rpc: Rpc[Result], address: str, key: SharePartitionKey, item: object
    ) -> Result:
        """Return the answer of the node at ``address``; a failed call is an error like others."""
        if self._closed:
            return rpc.failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the persister stopped")
        is_alone = isinstance(item, PartitionRead) and item.handing_over > 0
        name = _Name(address, rpc.method.name, key.group_id, key if is_alone else None)
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(rpc)
            task = asyncio.get_running_loop().create_task(self._run(name, lane))
            self._tasks[task] = None
            task.add_done_callback(partial(self._ended, name, lane))
        elif len(lane.waiting) >= self._settings.queued_per_lane:
            return rpc.failed(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{len(lane.waiting)} share partitions wait for {rpc.method.name} at {address}",
            )
        answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        lane.waiting.append(_QueuedRequest(key, item, answered))
        return await answered

    @property
    def closed(self) -> bool:
        """Whether nothing goes out any more."""
        return self._closed

    async def close(self) -> None:
        """Drop what is under way; it is answered with COORDINATOR_NOT_AVAILABLE."""
        self._closed = True
        await cancel_and_wait(*self._tasks)

    async def _run(self, name: _Name, lane: _Lane) -> None:
        try:
            while lane.waiting:
                lane.under_way = [each for each in self._next(lane) if not each.answered.done()]
                if lane.under_way:
                    await self._call(name, lane.rpc, lane.under_way)
        finally:
            del self._lanes[name]  # a request that comes from now on opens another one

    def _ended(self, name: _Name, lane: _Lane, task: "asyncio.Task[None]") -> None:
        """Answer what waits in a lane that has ended, also if it was cancelled before it began."""
        self._tasks.pop(task, None)
        if self._lanes.get(name) is lane:
            del self._lanes[name]
        failed = lane.rpc.failed
        error = None if task.cancelled() else task.exception()
        if error is None:
            left = failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the persister stopped")
        else:
            _log.error("asking %s failed", name.address, exc_info=error)
            left = failed(ErrorCode.UNKNOWN_SERVER_ERROR, f"asking {name.address}: {error!r}")
        _answer_all([*lane.under_way, *lane.waiting], left)

    def _next(self, lane: _Lane) -> list[_QueuedRequest]:
        """Take what fits into the next request: at least one share partition."""
        part: list[_QueuedRequest] = []
        batches = 0
        while lane.waiting and len(part) < self._settings.partitions_per_request:
            item = lane.waiting[0].item
            batches += _weight(item) if isinstance(item, StateWrite) else 0
            if part and batches > self._settings.batches_per_request:
                break
            part.append(lane.waiting.popleft())
        return part

    async def _call(self, name: _Name, rpc: Rpc[Any], part: list[_QueuedRequest]) -> None:
        request = rpc.request(name.group_id, [(each.key, each.item) for each in part])
        try:
            response = await self._caller.call(
                rpc.method, request, to=name.address, timeout_ms=self._settings.request_timeout_ms
            )
            results = rpc.results(request, response)
        except CallFailedError as failed:
            error = _ERRORS.get(failed.failure, ErrorCode.UNKNOWN_SERVER_ERROR)
            _answer_all(part, rpc.failed(error, failed.message))
        except MisshapenResponseError as misshapen:
            _answer_all(part, rpc.failed(ErrorCode.UNKNOWN_SERVER_ERROR, str(misshapen)))
        else:
            for each in part:
                _answer(each, results[each.key.topic_id, each.key.partition].pop(0))


def _weight(write: StateWrite) -> int:
    return len(write.batches) + sum(lock.size_bytes for lock in write.hand_over) // 512


def _answer_all(part: list[_QueuedRequest], result: object) -> None:
    for each in part:
        _answer(each, result)


def _answer(waiting: _QueuedRequest, result: object) -> None:
    if not waiting.answered.done():
        waiting.answered.set_result(result)
