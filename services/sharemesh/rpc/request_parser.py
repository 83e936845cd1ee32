"""Requests from bytes: bounded before they are parsed; those of many parts beside the loop."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic

from google.protobuf.message import DecodeError

from sharemesh.methods import Method, Request
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.message_parts import MessageParts

PARTS_IN_LOOP = 10_000
"""Messages inside a request that is parsed in the loop: some 5 ms (spec BND-7)."""

WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Requests of more parts that wait for the thread, or are parsed there."""


class ParserThread:
    """The one thread in which requests of many parts are counted and parsed."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "parser")
        self._waiting_bytes = 0

    async def parsed(
        self, method: Method[Request, Any], parts: MessageParts, data: bytes
    ) -> Request:
        """Count and parse a request while the loop goes on.

        Raises:
            CallFailedError: RESOURCE_EXHAUSTED or INVALID_ARGUMENT.
        """
        if self._waiting_bytes + len(data) > WAITING_BYTES_MAX:
            raise CallFailedError(
                Failure.RESOURCE_EXHAUSTED,
                f"{method.name}: {self._waiting_bytes} bytes of requests of more than "
                f"{PARTS_IN_LOOP} messages wait already: send less at once, or try again later",
            )
        self._waiting_bytes += len(data)
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, _counted, method, parts, data)
        finally:
            self._waiting_bytes -= len(data)

    def close(self) -> None:
        """End the thread; nothing can be parsed in it any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class RequestParser(Generic[Request]):
    """Parses the requests of one method."""

    def __init__(self, method: Method[Request, Any], thread: ParserThread) -> None:
        self._method = method
        self._parts = MessageParts(method.request)
        self._thread = thread

    async def parsed(self, data: bytes) -> Request:
        """Return the request.

        Raises:
            CallFailedError: RESOURCE_EXHAUSTED (too large, of too many parts) or
                INVALID_ARGUMENT (no request of the method).
        """
        method = self._method
        if len(data) > method.request_bytes_max:
            raise CallFailedError(
                Failure.RESOURCE_EXHAUSTED,
                f"{method.name}: a request of {len(data)} bytes is larger than "
                f"{method.request_bytes_max}: send less at once",
            )
        if self._parts.exceed(data, PARTS_IN_LOOP):
            return await self._thread.parsed(method, self._parts, data)
        return _parsed(method, data)


def _counted(method: Method[Request, Any], parts: MessageParts, data: bytes) -> Request:
    if parts.exceed(data, method.request_parts_max):
        raise CallFailedError(
            Failure.RESOURCE_EXHAUSTED,
            f"{method.name}: a request of more than {method.request_parts_max} messages inside "
            "each other: send less at once",
        )
    return _parsed(method, data)


def _parsed(method: Method[Request, Any], data: bytes) -> Request:
    try:
        return method.request.FromString(data)
    except DecodeError:
        raise CallFailedError(
            Failure.INVALID_ARGUMENT,
            f"{method.name}: the request is not a {method.request.DESCRIPTOR.full_name}",
        ) from None
