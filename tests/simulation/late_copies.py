"""Requests that come twice: the first copy was held up on its way, and its sender asked again."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from sharemesh import methods
from sharemesh.ports.network import CallContext, CallFailedError
from tests.simulation.network import Host
from tests.simulation.world import World

LATE_S = (0.01, 8.0)
CHANCE = 0.3
LOOK_S = 0.1
STATE_METHODS = (
    methods.INITIALIZE_SHARE_GROUP_STATE,
    methods.READ_SHARE_GROUP_STATE,
    methods.WRITE_SHARE_GROUP_STATE,
    methods.DELETE_SHARE_GROUP_STATE,
)
Handler = Callable[[Any, CallContext], Awaitable[Any]]


class LateCopies:
    """Hands some requests of share states to their handler again, up to some seconds later."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = Random(world.rng.getrandbits(64))
        self._known: list[Host] = []

    async def run(self) -> None:
        """Go on until the run ends; processes that start again are found soon."""
        while True:
            for host in self._world.network._hosts.values():
                if not any(host is each for each in self._known):
                    self._known.append(host)
                    for method in STATE_METHODS:
                        if method.name in host.unary:
                            host.unary[method.name] = self._copied(host, host.unary[method.name])
            await asyncio.sleep(LOOK_S)

    def _copied(self, host: Host, handler: Handler) -> Handler:
        async def take(request: Any, context: CallContext) -> Any:
            if self._rng.random() < CHANCE:
                data = request.SerializeToString(deterministic=True)
                delay_s = self._rng.uniform(*LATE_S)
                self._world.later(
                    delay_s, lambda: self._again(host, handler, type(request), data, context)
                )
            return await handler(request, context)

        return take

    def _again(
        self, host: Host, handler: Handler, kind: Any, data: bytes, context: CallContext
    ) -> None:
        if host.process.alive:
            self._world.event_log.counters["late copies of requests"] += 1
            host.process.start(_unheard(handler, kind.FromString(data), context))


async def _unheard(handler: Handler, request: Any, context: CallContext) -> None:
    """Carry a request out whose sender listens no more."""
    try:
        await handler(request, context)
    except CallFailedError:
        return
