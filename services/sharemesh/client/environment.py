"""What a client needs of the world; ``connect``, tests and simulation fill it."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from sharemesh.ports.clock import Clock
from sharemesh.ports.network import Caller


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """The ports of one client.

    ``open_caller`` is called once, on the event loop that will use the connections.
    """

    open_caller: Callable[[], Caller]
    clock: Clock
    chance: random.Random
    new_id: Callable[[], str]
