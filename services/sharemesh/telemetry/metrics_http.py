"""Small pages over HTTP, for probes and for Prometheus in its text format, made on the loop."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sharemesh.tasks import cancel_and_wait
from sharemesh.telemetry.instruments import Histogram, InstrumentKind, Labels, Reading, Registry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATH = "/metrics"
REQUEST_BYTES_MAX = 8_192
REQUEST_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 16
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpPage:
    """What is answered to one request."""

    text: str
    status: str = "200 OK"
    content_type: str = "text/plain; charset=utf-8"


class HttpPages:
    """Serves GET of some paths without TLS, for the pod's own network; nothing else."""

    def __init__(self, pages: Mapping[str, Callable[[], HttpPage]]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], None] = {}

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
        self._connections[task] = None
        task.add_done_callback(lambda task: self._connections.pop(task, None))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(request))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the other side is slow, gone, or speaks something else
        except Exception:
            _log.exception("a page could not be made")
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _response(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
        if method not in {b"GET", b"HEAD"}:
            return _http(HttpPage("only GET is answered\n", "405 Method Not Allowed"))
        if path not in self._pages:
            known = " and ".join(self._pages)
            return _http(HttpPage(f"nothing here; pages are {known}\n", "404 Not Found"))
        return _http(self._pages[path](), with_body=method == b"GET")


class MetricsEndpoint(HttpPages):
    """Serves ``GET /metrics``: what a registry holds, for Prometheus."""

    def __init__(self, registry: Registry) -> None:
        def page() -> HttpPage:
            return HttpPage(expose(registry.collect()), content_type=CONTENT_TYPE)

        super().__init__({PATH: page})


def expose(readings: Iterable[Reading]) -> str:
    """Return one page with all readings."""
    lines: list[str] = []
    for reading in readings:
        name = reading.metric.prometheus_name
        lines.append(f"# HELP {name} {_escaped_help(reading.metric.says)}")
        lines.append(f"# TYPE {name} {reading.metric.kind}")
        names = reading.metric.labels
        if reading.metric.kind is InstrumentKind.HISTOGRAM:
            for values, histogram in reading.histograms:
                lines.extend(_buckets(name, names, values, histogram))
        else:
            lines.extend(
                f"{name}{_labels(names, values)} {_number(value)}"
                for values, value in reading.values
            )
    return "\n".join(lines) + "\n"


def _buckets(name: str, names: Labels, values: Labels, histogram: Histogram) -> Iterator[str]:
    running = 0
    bounds = (*map(_number, histogram.bounds), "+Inf")
    for bound, count in zip(bounds, histogram.counts, strict=True):
        running += count
        yield f"{name}_bucket{_labels((*names, 'le'), (*values, bound))} {running}"
    yield f"{name}_sum{_labels(names, values)} {_number(histogram.total)}"
    yield f"{name}_count{_labels(names, values)} {running}"


def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _http(page: HttpPage, *, with_body: bool = True) -> bytes:
    body = page.text.encode() if with_body else b""
    head = (
        f"HTTP/1.1 {page.status}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
