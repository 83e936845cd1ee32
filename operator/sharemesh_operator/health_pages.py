"""The operator's pages for probes and for Prometheus."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from aiohttp import web

from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.prometheus_text import expose


class Standing(StrEnum):
    """How a replica stands in the election."""

    STARTING = "starting"
    STANDING_BY = "standing by"
    LEADING = "leading"
    WITHOUT_ETCD = "without etcd"
    ENDED = "ended"


class HealthPages:
    """Serves /healthz and /readyz on one port, /metrics on another.

    Alive: the loop answers. Ready: it can take part in the election. Liveness does not depend on
    etcd or the API server.
    """

    def __init__(
        self,
        standing: Callable[[], Standing],
        figures: Callable[[], Mapping[str, float]],
        registry: Registry,
    ) -> None:
        """``registry`` is what stands on the metrics page behind the figures."""
        self._standing = standing
        self._figures = figures
        self._registry = registry
        self._runners: list[web.AppRunner] = []
        self.ports: list[int] = []

    async def start(self, host: str, health_port: int, metrics_port: int) -> None:
        """Listen; ``ports`` are health and metrics then (0 takes any free one).

        Raises:
            OSError: A port cannot be listened on.
        """
        health = web.Application()
        health.router.add_get("/healthz", self._healthz)
        health.router.add_get("/readyz", self._readyz)
        metrics = web.Application()
        metrics.router.add_get("/metrics", self._metrics)
        for application, port in ((health, health_port), (metrics, metrics_port)):
            runner = web.AppRunner(application, access_log=None)
            await runner.setup()
            self._runners.append(runner)
            site = web.TCPSite(runner, host, port)
            await site.start()
            self.ports.append(runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening."""
        for runner in self._runners:
            await runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text=f"{self._standing()}\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        standing = self._standing()
        able = standing in (Standing.STANDING_BY, Standing.LEADING)
        return web.Response(text=f"{standing}\n", status=200 if able else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        lines = []
        for name, value in self._figures().items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# TYPE {name} {kind}", f"{name} {value:g}"]
        page = "\n".join(lines) + "\n" + expose(self._registry.collect())
        return web.Response(text=page, content_type="text/plain")
