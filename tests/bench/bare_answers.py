"""A server that answers each Kafka frame with the same record batch: what sending alone costs.

``python -m tests.bench.bare_answers BYTES`` prints its port and serves until its input ends.
"""

import asyncio
import os
import struct
import sys

HEAD, TAIL = b"h" * 60, b"t" * 40
SIZE = struct.Struct(">i")


class BareAnswers(asyncio.Protocol):
    """Passes the batch on without a copy, as the listener should."""

    def __init__(self, records: bytes) -> None:
        self._records = records
        self._frame = SIZE.pack(len(HEAD) + len(records) + len(TAIL))
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin (asyncio)."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each whole frame (asyncio)."""
        received = self._received
        received += data
        while len(received) >= SIZE.size:
            end = SIZE.size + SIZE.unpack_from(received)[0]
            if len(received) < end:
                return
            del received[:end]
            self._transport.writelines([self._frame, HEAD, self._records, TAIL])  # type: ignore[attr-defined]


async def serve(size: int) -> None:
    """Serve until the input ends."""
    loop = asyncio.get_running_loop()
    records = os.urandom(size)
    server = await loop.create_server(lambda: BareAnswers(records), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
