"""How services are offered and called; gRPC, one process and simulation fill it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from sharemesh.domain.ids import TopicPartition
from sharemesh.methods import Method, Request, Response

In_co = TypeVar("In_co", bound=Message, covariant=True)
Result = TypeVar("Result")
Out_contra = TypeVar("Out_contra", bound=Message, contravariant=True)


class Failure(Enum):
    """Why a call got no answer from the service itself: what gRPC status is for."""

    UNAVAILABLE = "unavailable"  # could not connect, or the connection was lost
    DEADLINE_EXCEEDED = "deadline_exceeded"  # may still take effect
    RESOURCE_EXHAUSTED = "resource_exhausted"  # message too large, or overload
    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_DENIED = "permission_denied"  # known, but no access rule allows it
    INVALID_ARGUMENT = "invalid_argument"
    UNIMPLEMENTED = "unimplemented"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


REFUSALS = frozenset({Failure.UNAUTHENTICATED, Failure.PERMISSION_DENIED})
"""The caller is not let in: asking again, or elsewhere, is of no use."""


class CallFailedError(Exception):
    """The transport failed; the message names method, address and what to do.

    ``unreachable`` says in few words why there was not even a connection; else it is empty.
    ``stale``: UNAUTHENTICATED, but the same caller may be let in later, or with a newer token.
    ``throttle_ms``: a quota refused the call before its handler began, and is paid so much later.
    """

    def __init__(
        self,
        failure: Failure,
        message: str,
        *,
        unreachable: str = "",
        stale: bool = False,
        throttle_ms: int = 0,
    ) -> None:
        super().__init__(f"{failure.value}: {message}")
        self.failure = failure
        self.message = message
        self.unreachable = unreachable
        self.stale = stale
        self.throttle_ms = throttle_ms


class CallTime(Protocol):
    """Processor time as a quota bounds it: of one principal's streams, and who owes (QUO-14)."""

    def measured(self, work: Coroutine[Any, Any, Result]) -> Coroutine[Any, Any, Result]:
        """Return the work as it is to be awaited, so that the time of its steps counts."""
        ...

    def may_go_on(self, call: Callable[[], None]) -> bool:
        """Return whether more work may begin; if not, it is called once, in turn, to ask again."""
        ...

    def forget(self, call: Callable[[], None]) -> None:
        """Call no more."""
        ...

    @property
    def throttle_ms(self) -> int:
        """How long nothing that may wait begins; 0: no such time."""
        ...

    def holding_back(self, principal: str) -> str:
        """Return in words the quota for whose debt a principal waits here; empty: none."""
        ...


class UnmeasuredTime:
    """Fills ``CallTime`` where nobody counts."""

    throttle_ms = 0

    def measured(self, work: Coroutine[Any, Any, Result]) -> Coroutine[Any, Any, Result]:
        """Return the work itself."""
        return work

    def may_go_on(self, call: Callable[[], None]) -> bool:  # noqa: ARG002 - the port's words
        """Return True: nothing is bounded."""
        return True

    def forget(self, call: Callable[[], None]) -> None:
        """Do nothing: nobody was kept waiting."""

    def holding_back(self, principal: str) -> str:  # noqa: ARG002 - the port's words
        """Return nothing: nobody owes."""
        return ""


_UNMEASURED = UnmeasuredTime()

LEAST_READ_BYTES = 64 * 1024
"""With so much room in an answer records are read, whatever more is asked for."""


class AnswerRoom(Protocol):
    """What the answer of a call may take until it has left, beside others' of its principal."""

    async def until_room(self, timeout_ms: int) -> None:
        """Return once something may be read, or when the time is over."""
        ...

    def take(self, most: int) -> int:
        """Set bytes aside for what is read now, and return how many; 0: there is no room."""
        ...

    def give_back(self, size: int) -> None:
        """Of what was set aside so much was not read."""
        ...


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls: one per connection and call.

    ``connection`` is equal for calls on one connection where the transport knows it.
    ``proven_for_ms`` is how long from now the token lasts that names the principal; None: it was
    not named by a token. ``in_span``: the call is a part of a request that has a span of its own.
    ``time`` measures what the handler of a stream leaves to other tasks, and says whom the quota of
    processor time holds back. ``batches`` is where record batches go instead of into an answer, for
    a caller in this process that passes them on as they are; None: into it. ``placed`` is called
    at most once, as soon as all that a Produce asks for has its place in the logs, behind whatever
    came earlier; it may never be (KLS-3). ``answer`` bounds what is read for the answer; None: the
    transport does not, or bounds it in another way.
    """

    peer: str
    principal: str = "User:ANONYMOUS"
    metadata: tuple[tuple[str, str], ...] = field(default=())
    proven_for_ms: int | None = None
    in_span: bool = False
    time: CallTime = _UNMEASURED
    batches: dict[TopicPartition, bytes] | None = None
    placed: Callable[[], None] | None = None
    answer: AnswerRoom | None = None


class Stream(Protocol, Generic[Out_contra, In_co]):
    """One open bidirectional stream: ``send`` what this side says, iterate what the other says.

    Iteration ends when the other side closed in good order and raises ``CallFailedError`` when
    the connection was lost. ``send`` waits while the transport's buffer is full.
    """

    async def send(self, message: Out_contra) -> None:
        """Send one message, waiting for flow control."""
        ...

    def __aiter__(self) -> AsyncIterator[In_co]: ...

    async def close(self) -> None:
        """End this side's half (client) or the stream (server). Repeating it is fine."""
        ...


class Caller(Protocol):
    """The side that asks. ``to`` is ``host:port``."""

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        to: str,
        timeout_ms: int | None = None,
    ) -> Response:
        """Return the response of a unary method.

        Raises:
            CallFailedError: No answer from the service, with the reason.
        """
        ...

    async def stream(
        self, method: Method[Request, Response], *, to: str
    ) -> Stream[Request, Response]:
        """Open a bidirectional stream.

        Raises:
            CallFailedError: The address cannot be reached.
        """
        ...

    async def close(self) -> None:
        """Close all connections; open calls fail."""
        ...


class Listener(Protocol):
    """The side that answers."""

    def offer(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> None:
        """Answer a unary method. ``CallFailedError`` out of the handler becomes the status."""
        ...

    def offer_stream(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    ) -> None:
        """Answer a stream method; the stream ends when the handler returns or raises.

        The handler is cancelled when the connection is lost.
        """
        ...
