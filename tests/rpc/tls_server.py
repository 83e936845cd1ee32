"""A server with TLS in a process of its own: `python -m tests.rpc.tls_server DIRECTORY SPEED`.

It prints its port. Time passes SPEED times as fast for its certificates, so that they are renewed
many times within one test; each renewal is a line on standard error.
"""

import asyncio
import logging
import sys
import time
from pathlib import Path

from sharemesh.methods import API_VERSIONS
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.server_certificates import ServerCertificates
from sharemesh.rpc.tls import TlsFiles
from sharemesh.v1.admin_pb2 import ApiVersionsRequest, ApiVersionsResponse
from tests.rpc.bursts import allow_many_files


class FastClock:
    """Time that passes faster."""

    def __init__(self, speed: float) -> None:
        self._speed = speed

    def now_ms(self) -> int:
        return int(time.monotonic() * 1_000)

    def wall_ms(self) -> int:
        return int(time.time() * 1_000)

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1_000 / self._speed)


async def who(_request: ApiVersionsRequest, context: object) -> ApiVersionsResponse:
    return ApiVersionsResponse(server_version=context.principal)


async def serve(directory: Path, speed: float) -> None:
    files = TlsFiles(directory / "server.crt", directory / "server.key", directory / "ca.crt")
    server = GrpcServer(tls=ServerCertificates(files, FastClock(speed)), reflection=False)
    server.offer(API_VERSIONS, who)
    print(await server.start("127.0.0.1", 0), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    allow_many_files()
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2])))
