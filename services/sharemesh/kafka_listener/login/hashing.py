"""Passwords are hashed in few threads and in turns, so that a flood keeps nobody else out."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv6Address, ip_address

from sharemesh.domain.scram_credentials import ScramMechanism, salted_password

HASHING_THREADS = 2

_NETWORK_BYTES = 8
"""What one host has of IPv6 is a /64: all of it is one source."""


class Hashing:
    """Sources take turns, and within a source the newest is first (spec KLS-22).

    More logins may come than can be hashed. The oldest first would serve those that give way
    next (KLS-27), so nobody would come in; the newest has the most time left. What waits too long
    ends with its connection.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(HASHING_THREADS, "kafka-passwords")
        self._free = HASHING_THREADS
        # By source, whose turn is next first; of each the newest last.
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}

    def close(self) -> None:
        """End the threads; nothing can be hashed any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def salted(
        self, source: str, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
    ) -> bytes:
        """Return a salted password, once it is the turn of its source."""
        loop = asyncio.get_running_loop()
        if self._free:
            self._free -= 1
        else:
            await self._turn(source)
        work = self._threads.submit(salted_password, mechanism, password, salt, iterations)
        # Not with the login, which may end before: a thread is free once it has ended its work.
        work.add_done_callback(lambda _: _tell(loop, self._pass_on))
        return await asyncio.wrap_future(work)

    async def _turn(self, source: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(source, {})[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(source, turn)
            else:
                self._pass_on()  # it was told, and ends before it began
            raise

    def _forget(self, source: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(source, {})
        waiting.pop(turn, None)
        if not waiting:
            self._waiting.pop(source, None)

    def _pass_on(self) -> None:
        """Let the next one begin in the thread that is free now."""
        while self._waiting:
            source = next(iter(self._waiting))
            waiting = self._waiting.pop(source)
            turn, _ = waiting.popitem()
            if waiting:
                self._waiting[source] = waiting
            if not turn.done():  # else its login has just ended
                turn.set_result(None)
                return
        self._free += 1


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    """Let the loop do something, called in another thread."""
    with contextlib.suppress(RuntimeError):  # a loop that has ended has nothing to do any more
        loop.call_soon_threadsafe(what)


def source_of(peername: Sequence[object] | None) -> str:
    """Return whom connections come from: an address, of IPv6 its network."""
    host = str(peername[0]) if peername else ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.packed[:_NETWORK_BYTES].hex()
