"""The page that Prometheus asks for: one small HTTP answer, on the loop."""

import asyncio
import contextlib
import logging

from sharemesh.tasks import cancel_and_wait
from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.prometheus_text import CONTENT_TYPE, expose

PATH = "/metrics"
REQUEST_BYTES_MAX = 8_192
REQUEST_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 16

_log = logging.getLogger(__name__)


class MetricsEndpoint:
    """Serves ``GET /metrics`` without TLS, for the pod's own network; nothing else."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port (0 takes any free one).

        Raises:
            OSError: The port cannot be listened on.
        """
        self._server = await asyncio.start_server(
            self._connected, host, port, limit=REQUEST_BYTES_MAX
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening and drop open connections."""
        if self._server is not None:
            self._server.close()
        await cancel_and_wait(*self._connections)
        if self._server is not None:
            await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._answer(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(request))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the other side is slow, gone, or speaks something else
        except Exception:
            _log.exception("metrics could not be collected")
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _response(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
        if method not in {b"GET", b"HEAD"}:
            return _http("405 Method Not Allowed", b"only GET is answered\n")
        if path != PATH:
            return _http("404 Not Found", f"nothing here; metrics are at {PATH}\n".encode())
        body = expose(self._registry.collect()).encode()
        return _http("200 OK", body if method == b"GET" else b"", CONTENT_TYPE)


def _http(status: str, body: bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
