"""How long streams last whose callers are known by tokens (IDN-7)."""

import asyncio
import contextlib

from sharemesh.ports.network import CallContext
from sharemesh.rpc.token_streams import TokenStreams

WAIT_S = 20


async def stream(streams, for_ms, *, began=None, ending=None, until=None):
    """Hold a stream until its token ends; it goes away once ``until`` is set."""
    with streams.bound(CallContext("ipv4:10.0.0.7:1", "User:a", (), for_ms)) as end:
        with contextlib.suppress(TimeoutError):
            async with end:
                if began is not None:
                    began.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    if ending is not None:
                        ending.set()
                        await until.wait()
        return end.expired()


async def test_a_stream_that_begins_while_older_ones_end_has_an_end_of_its_own():
    """IDN-7: the old token's streams take a while to go; the new one must not join them."""
    streams, began, ending, until = TokenStreams(), *(asyncio.Event() for _ in range(3))
    old = asyncio.ensure_future(stream(streams, 1, ending=ending, until=until))
    async with asyncio.timeout(WAIT_S):
        await ending.wait()
        new = asyncio.ensure_future(stream(streams, 50, began=began))
        await began.wait()
        until.set()
        assert await old
        assert len(streams) == 1
        assert await new
    assert len(streams) == 0
