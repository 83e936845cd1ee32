"""Calls of a handler of ``run``: their deadline, and what their answers mean (CL-45, CL-47)."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from sharemesh.client.consumer.handled_record import HandledRecord
from sharemesh.client.consumer.handler_failures import ENDINGS
from sharemesh.client.errors import IllegalArgumentError
from sharemesh.client.records import ConsumerRecord
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.tasks import cancel_and_wait

Handler = Callable[[ConsumerRecord], Awaitable[AcknowledgeType | None]]

_SHOWN_MAX = 100


class WrongHandlerError(IllegalArgumentError):
    """The handler is of the kind that the other client takes."""


class HandlerCalls:
    """Calls a handler.

    Attributes:
        cancels: Whether it ends when its task does; one on a thread goes on.
    """

    def __init__(self, handler: Handler, deadline_ms: int | None, *, cancels: bool) -> None:
        self._handler = handler
        self._deadline_ms = deadline_ms
        self.cancels = cancels

    async def call(self, active: HandledRecord) -> AcknowledgeType:
        """Return what the handler says of a record.

        Raises:
            TimeoutError: It did not end in time. It was cancelled, or is ``active.late``.
            WrongHandlerError: It is a coroutine function on a thread, or none under asyncio.
            TypeError: It returned no word on a record.
        """
        answer = self._handler(active.record)
        if not inspect.isawaitable(answer):
            raise WrongHandlerError(
                "the handler is a plain function, which would block this event loop: make it "
                "async def, or use share_consumer, which runs it on threads"
            )
        return _word(await self._in_time(answer, active))

    async def _in_time(
        self, answer: Awaitable[AcknowledgeType | None], active: HandledRecord
    ) -> AcknowledgeType | None:
        if self._deadline_ms is None:
            return await answer
        called = asyncio.ensure_future(answer)
        try:
            await asyncio.wait({called}, timeout=self._deadline_ms / 1_000)
            if called.done():
                return called.result()
            if not self.cancels:
                active.late = called
        finally:
            if active.late is None:
                await cancel_and_wait(called)
        raise TimeoutError(f"the handler did not end within {self._deadline_ms} ms (deadline_ms)")


async def ended_late(active: HandledRecord) -> None:
    """Return when a handler on a thread that is past its deadline has ended; not what it says."""
    if active.late is None:
        return
    try:
        await asyncio.wait({active.late})
    finally:
        await cancel_and_wait(active.late)


def _word(said: object) -> AcknowledgeType:
    if said is None:
        return AcknowledgeType.ACCEPT
    if isinstance(said, AcknowledgeType) and said in ENDINGS:
        return said
    if inspect.iscoroutine(said):
        said.close()
        raise WrongHandlerError(
            "the handler is a coroutine function, and this consumer runs plain ones on threads: "
            "use async_share_consumer, or def instead of async def"
        )
    shown = repr(said)[:_SHOWN_MAX]
    raise TypeError(
        f"the handler returned {shown}: return None, which accepts the record, or "
        "AcknowledgeType.ACCEPT, RELEASE or REJECT"
    )
