"""Several listeners as one: whatever is offered is answered at each of them."""

from collections.abc import Awaitable, Callable

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallContext, Listener, Stream


class Doors:
    """Fills ``ports.network.Listener`` by others."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def offer(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> None:
        """Answer a unary method at each (see the port)."""
        for each in self._listeners:
            each.offer(method, handler)

    def offer_stream(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    ) -> None:
        """Answer a stream method at each (see the port)."""
        for each in self._listeners:
            each.offer_stream(method, handler)
