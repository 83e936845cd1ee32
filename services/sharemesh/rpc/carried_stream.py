"""Small unary calls as messages of one stream: the server's side (spec CAR)."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from sharemesh.ports.network import CallFailedError, Failure, Stream
from sharemesh.rpc.carried_calls import CALLS_OF_A_MESSAGE, CALLS_UNDER_WAY, CARRY
from sharemesh.tasks import OwnedTasks, cancel_and_wait
from sharemesh.v1 import carried_calls_pb2 as pb


class CarriedAnswering(Protocol):
    """What answers the calls of one caller."""

    def refused(self, call: pb.CarriedCall) -> pb.CarriedAnswer | None:
        """Count one more open call; or return why it is refused, without counting it."""
        ...

    async def answer(self, call: pb.CarriedCall) -> pb.CarriedAnswer:
        """Return how a call ends; nothing is raised."""
        ...

    def left(self, number: int | None) -> None:
        """A call that was counted is over; the answer to this number, if it has one, has left."""
        ...


class CarriedStream:
    """The calls that came on one stream; ``run`` owns what answers them."""

    def __init__(
        self, stream: Stream[pb.CarriedAnswers, pb.CarriedCalls], answering: CarriedAnswering
    ) -> None:
        self._stream = stream
        self._answering = answering
        self._calls = OwnedTasks("a stream of calls")
        self._begun: dict[int, asyncio.Task[pb.CarriedAnswer]] = {}
        self._counted = 0
        self._room = asyncio.Semaphore(CALLS_UNDER_WAY)
        self._answers: list[pb.CarriedAnswer] = []
        self._refusals: list[pb.CarriedAnswer] = []
        self._news: asyncio.Future[None] | None = None
        self._stops = asyncio.Event()
        self._settled = False

    def stop(self) -> None:
        """Take no more calls; the stream ends once those that were taken are answered."""
        self._stops.set()

    async def run(self) -> None:
        """Serve until the caller closes the stream, it is stopped, or it breaks."""
        reader = asyncio.ensure_future(self._read())
        sender = asyncio.ensure_future(self._send())
        stopped = asyncio.ensure_future(self._stops.wait())
        tasks = (reader, sender, stopped)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await cancel_and_wait(reader, stopped)
            if not sender.done() and (reader.cancelled() or reader.exception() is None):
                await self._calls.settle()
                self._settled = True
                self._wake()
                await sender
        finally:
            await cancel_and_wait(*tasks)
            await self._calls.close()
            self._left([None] * self._counted)
        for task in (reader, sender):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _read(self) -> None:
        async for message in self._stream:
            if len(message.calls) > CALLS_OF_A_MESSAGE:
                raise _invalid(f"{len(message.calls)} calls in one message")
            for call in message.calls:
                if call.cancelled:
                    begun = self._begun.get(call.number)
                    if begun is not None:
                        begun.cancel()
                else:
                    await self._room.acquire()
                    self._begin(call)

    def _begin(self, call: pb.CarriedCall) -> None:
        if call.number in self._begun:
            raise _invalid(f"two calls with number {call.number}")
        refused = self._answering.refused(call)
        if refused is not None:
            self._refusals.append(refused)
            self._wake()
            return
        self._counted += 1
        self._begun[call.number] = self._calls.spawn_heard(
            self._answering.answer(call), partial(self._ended, call.number)
        )

    def _ended(self, number: int, outcome: pb.CarriedAnswer | BaseException) -> None:
        del self._begun[number]
        if isinstance(outcome, BaseException):  # cancelled: nobody waits for its answer
            self._left([None])
            self._room.release()
            return
        self._answers.append(outcome)
        self._wake()

    def _left(self, numbers: Sequence[int | None]) -> None:
        self._counted -= len(numbers)
        for number in numbers:
            self._answering.left(number)

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _send(self) -> None:
        while True:
            while not (self._answers or self._refusals):
                if self._settled:
                    return
                self._news = asyncio.get_running_loop().create_future()
                await self._news
            answers, self._answers = self._answers, []
            refusals, self._refusals = self._refusals, []
            await self._stream.send(pb.CarriedAnswers(answers=[*answers, *refusals]))
            self._left([each.number for each in answers])
            for _ in (*answers, *refusals):
                self._room.release()


def _invalid(what: str) -> CallFailedError:
    return CallFailedError(Failure.INVALID_ARGUMENT, f"{CARRY.name}: {what}")
