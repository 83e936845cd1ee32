"""One bidirectional stream as a handler holds it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, Generic

import grpc
from google.protobuf.message import DecodeError

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.inbox import Inbox
from sharemesh.rpc.limits import INBOX_MESSAGES, refusal
from sharemesh.rpc.message_parts import MessageParts

_log = logging.getLogger(__name__)


class GrpcServerStream(Generic[Response, Request]):
    """Fills ``ports.network.Stream`` over a grpc.aio servicer context."""

    def __init__(
        self,
        context: Any,  # noqa: ANN401 - grpc has no type for it
        method: Method[Any, Any],
        parts: MessageParts,
    ) -> None:
        self._context = context
        self._parts = parts
        self._request: type[Request] = method.request
        self._method = method.name
        self._of = method
        self._inbox: Inbox[Request] = Inbox(INBOX_MESSAGES)
        self._closed = False

    async def send(self, message: Response) -> None:
        """Send one message, waiting for flow control.

        Raises:
            CallFailedError: The stream is closed or its connection was lost.
        """
        if self._closed:
            raise CallFailedError(Failure.CANCELLED, f"{self._method}: the stream is closed")
        try:
            await self._context.write(message)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            raise self._lost() from error
        except asyncio.InvalidStateError as error:
            raise self._lost() from error

    def __aiter__(self) -> AsyncIterator[Request]:
        return self

    async def __anext__(self) -> Request:
        """Return the next message."""
        return await self._inbox.get()

    async def close(self) -> None:
        """End the stream: iteration ends, and nothing more can be sent. Repeating it is fine."""
        self._closed = True
        self._inbox.end()

    async def read_ahead(self) -> None:
        """Move what the client says into the inbox until it has no more to say."""
        try:
            while (data := await self._context.read()) is not grpc.aio.EOF:
                why = refusal(self._of, self._parts, data)
                if why:
                    self._inbox.end(CallFailedError(Failure.RESOURCE_EXHAUSTED, why))
                    return
                await self._inbox.put(self._request.FromString(data))
        except DecodeError:
            name = self._request.DESCRIPTOR.full_name
            self._inbox.end(
                CallFailedError(Failure.INVALID_ARGUMENT, f"{self._method}: not a {name}")
            )
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, grpc.aio.InternalError):
            self._inbox.end(self._lost())
        except asyncio.CancelledError:
            self._inbox.end(self._lost())
            raise
        except Exception as error:
            _log.exception("reading a stream of %s failed", self._method)
            self._inbox.end(CallFailedError(Failure.INTERNAL, f"{self._method}: {error!r}"))
        else:
            self._inbox.end()

    def _lost(self) -> CallFailedError:
        return CallFailedError(
            Failure.UNAVAILABLE, f"{self._method}: the connection to the client was lost"
        )
