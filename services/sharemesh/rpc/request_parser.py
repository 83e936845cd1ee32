"""Requests from bytes: bounded before they are parsed; those of many parts beside the loop."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any, Generic

from google.protobuf.message import DecodeError

from sharemesh.methods import Method, Request
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.limits import ServerLimits
from sharemesh.rpc.message_parts import MessageParts
from sharemesh.shared_threads import SharedThreads

PARTS_IN_LOOP = 10_000
"""Messages inside a request that is parsed in the loop: some 5 ms (spec BND-7)."""


class ParserThread:
    """The one thread in which requests of many parts are counted and parsed, in turn."""

    def __init__(self, limits: ServerLimits, own: Iterable[str] = ()) -> None:
        """``own`` are the cluster's principals, whose part of what may wait is not bounded."""
        self._thread = SharedThreads(1, "parser")
        self._limits = limits
        self._own = frozenset(own)
        self._waiting_bytes: Counter[str] = Counter()

    async def parsed(
        self, method: Method[Request, Any], parts: MessageParts, data: bytes, principal: str
    ) -> Request:
        """Count and parse a request while the loop goes on.

        Raises:
            CallFailedError: RESOURCE_EXHAUSTED or INVALID_ARGUMENT.
        """
        self._check_room(method, len(data), principal)
        self._waiting_bytes[principal] += len(data)
        try:
            return await self._thread.run(principal, partial(_counted, method, parts, data))
        finally:
            self._waiting_bytes[principal] -= len(data)
            if not self._waiting_bytes[principal]:
                del self._waiting_bytes[principal]

    def _check_room(self, method: Method[Any, Any], size: int, principal: str) -> None:
        of_all, of_principal = self._waiting_bytes.total(), self._waiting_bytes[principal]
        may_be_more = of_principal + size <= self._limits.principal_parsed_bytes
        if of_all + size > self._limits.parsed_bytes:
            waiting = of_all
        elif not of_principal or may_be_more or principal in self._own:
            return
        else:
            waiting = of_principal
        raise CallFailedError(
            Failure.RESOURCE_EXHAUSTED,
            f"{method.name}: {waiting} bytes of requests of more than {PARTS_IN_LOOP} messages "
            "wait already: send less at once, or try again later",
        )

    def close(self) -> None:
        """End the thread; nothing can be parsed in it any more."""
        self._thread.close()


class RequestParser(Generic[Request]):
    """Parses the requests of one method."""

    def __init__(self, method: Method[Request, Any], thread: ParserThread) -> None:
        self._method = method
        self._parts = MessageParts(method.request)
        self._thread = thread

    async def parsed(self, data: bytes, principal: str) -> Request:
        """Return the request of a principal.

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
            return await self._thread.parsed(method, self._parts, data, principal)
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
