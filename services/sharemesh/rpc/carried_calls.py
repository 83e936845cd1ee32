"""Small unary calls as messages of one stream: the caller's side (spec CAR).

A unary call of gRPC costs its server and its caller about four times as much as a message on a
stream and its answer (docs/reports/2026-11-23-speed.md).
"""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from sharemesh.methods import Method, StreamingKind
from sharemesh.ports.clock import Clock
from sharemesh.rpc.limits import STREAM_TAKEN
from sharemesh.tasks import cancel_and_wait
from sharemesh.v1 import carried_calls_pb2 as pb

CARRY: Method[pb.CarriedCalls, pb.CarriedAnswers] = Method(
    "Calls/Carry",
    pb.CarriedCalls,
    pb.CarriedAnswers,
    deadline_ms=0,
    idempotent=False,
    kind=StreamingKind.STREAM,
    request_bytes_max=2 * 1024 * 1024,
)
"""Of the transport itself, so not in the table of methods."""

CARRIED_BYTES_MAX = 64 * 1024
"""A larger request goes by itself: behind it all others of the stream would wait."""

CALLS_OF_A_MESSAGE = 100
MESSAGE_BYTES_MAX = 1024 * 1024
CALLS_UNDER_WAY = 1_000
"""Calls of one stream that are not answered, at most; more go by themselves."""

CARRIED_FROM = 8
"""Calls to one address that go by themselves before a stream is opened for the next."""

_AGAIN_MS = 60_000
"""After a stream that was not taken the next one is opened so much later (CAR-5)."""

_IDLE_S = 30.0
_STATUSES = {status.value[0]: status for status in grpc.StatusCode}
_log = logging.getLogger(__name__)


class _Awaited(NamedTuple):
    answered: "asyncio.Future[bytes]"
    due_s: float


class CallCarrier:
    """One stream that carries calls, and those that are under way on it."""

    def __init__(self, call: Any) -> None:  # noqa: ANN401 - grpc.aio has no type for it
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._awaited: dict[int, _Awaited] = {}
        self._outgoing: list[pb.CarriedCall] = []
        self._news: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._used_s = self._loop.time()
        self._retired = False
        self.is_open = False
        self.was_taken = False
        self._running = asyncio.ensure_future(self._run())

    @property
    def has_ended(self) -> bool:
        """Whether the stream is over, or was never taken."""
        return self._running.done()

    @property
    def takes_calls(self) -> bool:
        """Whether one more call may be carried now."""
        return self.is_open and not self._retired and len(self._awaited) < CALLS_UNDER_WAY

    async def call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        """Return the encoded response.

        Raises:
            AioRpcError: The status with which a call of its own would have ended.
        """
        number = next(self._numbers)
        answered: asyncio.Future[bytes] = self._loop.create_future()
        self._used_s = self._loop.time()
        due_s = self._used_s + timeout_s
        self._awaited[number] = _Awaited(answered, due_s)
        self._watch(due_s)
        self._say(pb.CarriedCall(number=number, method=method, request=request))
        try:
            return await answered
        finally:
            del answered  # its error has this frame: no cycle may be left
            if self._awaited.pop(number, None) is not None:  # nobody waits any more
                self._say(pb.CarriedCall(number=number, cancelled=True))
            self._end_if_unused()

    def retire(self) -> None:
        """Take no more calls; the stream ends with those that are under way."""
        self._retired = True
        self._end_if_unused()

    async def close(self) -> None:
        """End at once; calls under way fail with CANCELLED."""
        self._lose(grpc.StatusCode.CANCELLED, "the connection was closed here")
        await cancel_and_wait(self._running)

    def _end_if_unused(self) -> None:
        if self._retired and not self._awaited and not self._outgoing:
            self._running.cancel()

    # ---- what goes out --------------------------------------------------------------------------

    def _say(self, word: pb.CarriedCall) -> None:
        if self.is_open:
            self._outgoing.append(word)
            if self._news is not None and not self._news.done():
                self._news.set_result(None)

    def _next_message(self) -> pb.CarriedCalls:
        message, size = pb.CarriedCalls(), 0
        taken = 0
        for call in self._outgoing[:CALLS_OF_A_MESSAGE]:
            size += len(call.request)
            if taken and size > MESSAGE_BYTES_MAX:
                break
            message.calls.append(call)
            taken += 1
        del self._outgoing[:taken]
        return message

    async def _send(self) -> None:
        try:
            await self._call.write(pb.CarriedCalls())  # a stream is taken with its first message
            while True:
                while not self._outgoing:
                    self._end_if_unused()
                    self._news = self._loop.create_future()
                    await self._news
                await self._call.write(self._next_message())
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            self._call.cancel()  # the reader ends the rest

    # ---- what comes back ------------------------------------------------------------------------

    async def _run(self) -> None:
        sender = asyncio.ensure_future(self._send())
        try:
            taken = await self._call.initial_metadata()
            if not any(key == STREAM_TAKEN for key, _ in taken or ()):
                return
            self.is_open = self.was_taken = True
            while (message := await self._call.read()) is not grpc.aio.EOF:
                for answer in message.answers:
                    self._settle(answer)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            _log.debug("a stream of calls ended: %r", error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        finally:
            self._lose(grpc.StatusCode.UNAVAILABLE, "the connection was lost")
            self._call.cancel()
            await cancel_and_wait(sender)

    def _settle(self, answer: pb.CarriedAnswer) -> None:
        awaited = self._awaited.pop(answer.number, None)
        if awaited is None or awaited.answered.done():
            return
        if not answer.status:
            awaited.answered.set_result(answer.response)
            return
        code = _STATUSES.get(answer.status, grpc.StatusCode.UNKNOWN)
        awaited.answered.set_exception(_error(code, answer.details, dict(answer.trailing)))

    def _lose(self, code: grpc.StatusCode, why: str) -> None:
        """Answer all that wait: what became of their calls is not known."""
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        self._outgoing.clear()
        lost, self._awaited = self._awaited, {}
        for awaited in lost.values():
            if not awaited.answered.done():
                awaited.answered.set_exception(_error(code, why, {}))

    # ---- time -----------------------------------------------------------------------------------

    def _watch(self, due_s: float) -> None:
        """See to it that a call does not wait beyond its time: one timer for all of them."""
        if self._timer is None or due_s < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due_s, self._look)

    def _look(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        for number, awaited in tuple(self._awaited.items()):
            if awaited.due_s <= now_s and not awaited.answered.done():
                del self._awaited[number]
                self._say(pb.CarriedCall(number=number, cancelled=True))
                words = "no answer in the time that the call has"
                error = _error(grpc.StatusCode.DEADLINE_EXCEEDED, words, {})
                awaited.answered.set_exception(error)
        next_s = min((each.due_s for each in self._awaited.values()), default=None)
        if next_s is None and now_s - self._used_s >= _IDLE_S:
            self.retire()
        elif self.is_open:
            self._timer = self._loop.call_at(next_s or now_s + _IDLE_S, self._look)


class Carriage:
    """By which stream calls to one address are carried, if they are."""

    def __init__(self, clock: Clock, opened: Callable[[], CallCarrier]) -> None:
        """``opened`` opens a stream."""
        self._clock = clock
        self._opened = opened
        self._carrier: CallCarrier | None = None
        self._headers: object = None
        self._asked = 0
        self._next_ms = 0

    def carrier(self, headers: object) -> CallCarrier | None:
        """Return what carries a call now; None: it goes by itself.

        No call waits for a stream: the first ones go by themselves, as do those to a server that
        takes none. ``headers`` went with the stream when it was opened; with others it is retired.
        """
        current = self._carrier
        if current is None:
            self._asked += 1
            if self._asked > CARRIED_FROM and self._clock.now_ms() >= self._next_ms:
                self._headers = headers
                self._carrier = self._opened()
        elif self._headers is not headers:
            current.retire()
            self._carrier = None
        elif current.takes_calls:
            return current
        elif current.has_ended:
            self._carrier, self._asked = None, 0
            self._next_ms = self._clock.now_ms() + (0 if current.was_taken else _AGAIN_MS)
        return None

    async def close(self) -> None:
        """End the stream."""
        if self._carrier is not None:
            await self._carrier.close()


def _error(code: grpc.StatusCode, details: str, trailing: dict[str, str]) -> grpc.aio.AioRpcError:
    metadata = grpc.aio.Metadata(*trailing.items())
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, details=details)
