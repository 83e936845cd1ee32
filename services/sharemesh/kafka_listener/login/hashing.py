"""Passwords are hashed in few threads and in turns, so that a flood keeps nobody else out."""

from collections.abc import Sequence
from functools import partial
from ipaddress import IPv6Address, ip_address

from sharemesh.domain.scram_credentials import ScramMechanism, salted_password
from sharemesh.shared_threads import SharedThreads

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
        self._threads = SharedThreads(HASHING_THREADS, "kafka-passwords", newest_first=True)

    def close(self) -> None:
        """End the threads; nothing can be hashed any more."""
        self._threads.close()

    async def salted(
        self, source: str, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
    ) -> bytes:
        """Return a salted password, once it is the turn of its source."""
        work = partial(salted_password, mechanism, password, salt, iterations)
        return await self._threads.run(source, work)


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
