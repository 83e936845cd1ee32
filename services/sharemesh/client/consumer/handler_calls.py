"""Calls of a handler of ``run``: their deadline, and what their answers mean (CL-45, CL-47)."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from sharemesh.client.argument_checks import check_whole
from sharemesh.client.consumer.handled_record import HandledRecord
from sharemesh.client.consumer.handler_failures import ENDINGS
from sharemesh.client.errors import IllegalArgumentError
from sharemesh.client.records import ConsumerRecord
from sharemesh.domain.delivery_state import AcknowledgeType

Handler = Callable[[ConsumerRecord], Awaitable[AcknowledgeType | None]]

CONCURRENCY_MAX = 10_000

CANCEL_WAIT_MS = 1_000
"""A coroutine that is cancelled has this long to end; then nobody waits for it any longer."""

_SHOWN_MAX = 100


class WrongHandlerError(IllegalArgumentError):
    """The handler is of the kind that the other client takes."""


def check_concurrency(concurrency: object) -> None:
    """Check how many handlers ``run`` may run at once.

    Raises:
        IllegalArgumentError: It is no whole number from 1 to ``CONCURRENCY_MAX``.
    """
    check_whole("concurrency", concurrency, 1, CONCURRENCY_MAX)


def check_handler(handler: object) -> None:
    """Check what is passed to ``run``.

    Raises:
        IllegalArgumentError: It cannot be called with one record.
    """
    if inspect.iscoroutine(handler):
        handler.close()
    if not callable(handler):
        raise IllegalArgumentError(
            f"the handler is {repr(handler)[:_SHOWN_MAX]}: give a function of one record, as in "
            "run(handle), not run(handle())"
        )
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return  # of some functions nobody knows it
    try:
        signature.bind(None)
    except TypeError as error:
        raise IllegalArgumentError(
            f"the handler cannot be called with one record: {error}"
        ) from error


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
            RuntimeError: It raised what is no ``Exception``.
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
            return await _of_its_own(answer)
        called = asyncio.ensure_future(_of_its_own(answer))
        called.add_done_callback(_retrieved)
        try:
            await asyncio.wait({called}, timeout=self._deadline_ms / 1_000)
            if called.done():
                return called.result()
            if self.cancels:
                called.cancel()
                await asyncio.wait({called}, timeout=CANCEL_WAIT_MS / 1_000)
            if not called.done():
                active.late = called
        finally:
            if active.late is None and not called.done():
                called.cancel()
                await asyncio.wait({called}, timeout=CANCEL_WAIT_MS / 1_000)
        raise TimeoutError(f"the handler did not end within {self._deadline_ms} ms (deadline_ms)")


async def _of_its_own(
    answer: Awaitable[AcknowledgeType | None],
) -> AcknowledgeType | None:
    """Return what the handler says; what it raises is a failure of its record and of no more."""
    try:
        return await answer
    except (Exception, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise raised_by_handler(error) from error


def raised_by_handler(error: BaseException) -> RuntimeError:
    """Return the failure of a record whose handler raised what is no ``Exception``."""
    return RuntimeError(f"the handler raised {error!r}")


def _retrieved(called: "asyncio.Future[Any]") -> None:
    """Nobody may be left to hear of it."""
    if not called.cancelled():
        called.exception()


async def ended_late(active: HandledRecord) -> None:
    """Return when a handler that goes on past its deadline has ended; not what it says."""
    if active.late is None:
        return
    try:
        await asyncio.wait({active.late})
    finally:
        active.late.cancel()


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
