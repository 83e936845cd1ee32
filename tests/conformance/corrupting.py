"""Real connections whose record batches arrive damaged."""

import random
import uuid

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.environment import Environment
from sharemesh.rpc.channels import GrpcCaller


class CorruptingStream:
    """Passes everything on, and flips the last byte of each batch set."""

    def __init__(self, stream) -> None:
        self._stream = stream

    async def send(self, message) -> None:
        await self._stream.send(message)

    async def close(self) -> None:
        await self._stream.close()

    async def __aiter__(self):
        async for message in self._stream:
            for topic in getattr(message, "responses", ()):
                for partition in topic.partitions:
                    if partition.records:
                        data = bytearray(partition.records)
                        data[-1] ^= 1
                        partition.records = bytes(data)
            yield message


class CorruptingCaller:
    """A caller whose streams damage record batches."""

    def __init__(self, caller: GrpcCaller) -> None:
        self._caller = caller

    async def call(self, method, request, *, to, timeout_ms=None):
        return await self._caller.call(method, request, to=to, timeout_ms=timeout_ms)

    async def stream(self, method, *, to):
        return CorruptingStream(await self._caller.stream(method, to=to))

    async def close(self) -> None:
        await self._caller.close()


def corrupting_environment() -> Environment:
    clock = SystemClock()
    return Environment(
        lambda: CorruptingCaller(GrpcCaller(clock)),
        clock,
        random.Random(1),
        lambda: str(uuid.uuid4()),
    )
