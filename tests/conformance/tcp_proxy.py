"""Real connections that a test listens in on, or damages."""

import random
import uuid

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.environment import ClientEnvironment
from sharemesh.rpc.channels import GrpcCaller


class TappedStream:
    """Passes everything on; ``sent`` and ``received`` see each message, and may change it."""

    def __init__(self, stream, sent, received) -> None:
        self._stream = stream
        self._sent = sent
        self._received = received

    async def send(self, message) -> None:
        self._sent(message)
        await self._stream.send(message)

    async def close(self) -> None:
        await self._stream.close()

    async def __aiter__(self):
        async for message in self._stream:
            self._received(message)
            yield message


class TappedCaller:
    """A caller whose streams are tapped."""

    def __init__(self, caller: GrpcCaller, sent, received) -> None:
        self._caller = caller
        self._taps = (sent, received)

    async def call(self, method, request, *, to, timeout_ms=None):
        return await self._caller.call(method, request, to=to, timeout_ms=timeout_ms)

    async def stream(self, method, *, to):
        return TappedStream(await self._caller.stream(method, to=to), *self._taps)

    async def close(self) -> None:
        await self._caller.close()


def _nothing(message) -> None:
    pass


def tapped_environment(sent=_nothing, received=_nothing) -> ClientEnvironment:
    clock = SystemClock()
    return ClientEnvironment(
        lambda: TappedCaller(GrpcCaller(clock), sent, received),
        clock,
        random.Random(1),
        lambda: str(uuid.uuid4()),
    )


def flip_last_byte(message) -> None:
    """Damage each set of record batches."""
    for topic in getattr(message, "responses", ()):
        for partition in topic.partitions:
            if partition.records:
                data = bytearray(partition.records)
                data[-1] ^= 1
                partition.records = bytes(data)
