"""kopf's part: it watches, keeps finalizers, and passes on what it sees. It decides nothing.

It runs in its own thread and loop, so that it ends quickly and the engine's loop keeps running.
"""

import asyncio
import datetime
import logging
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import kopf

import sharemesh_operator.resources.names as w
from sharemesh_operator.cluster.engine import Engine
from sharemesh_operator.cluster.kube import Login, RetryLaterError
from sharemesh_operator.resources.names import KubeObject

Result = TypeVar("Result")
CUSTOM = ("ShareCluster", "ShareTopic", "ShareGroup", "ShareUser", "ShareGroupOperation")
FINALIZED = ("ShareCluster", "ShareTopic", "ShareGroup", "ShareUser")
OWNED = ("Pod", "Service", "ConfigMap", "StatefulSet", "PodDisruptionBudget")
CLEAN_UP_RETRY_S = 2.0
REQUEST_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


class Handlers:
    """kopf's registry and settings for one term; its callbacks run the engine on its own loop."""

    def __init__(self, engine: Engine, login: Login, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self.registry = kopf.OperatorRegistry()
        self.settings = _settings()
        kopf.on.login(registry=self.registry, id="login")(lambda **_: login())
        for kind in CUSTOM:
            self._watch(kind)
        for kind in OWNED:
            kopf.on.event(
                w.KINDS[kind],
                w.plural(kind),
                labels={w.MANAGED_BY_LABEL: w.FIELD_MANAGER},
                registry=self.registry,
                id=f"owned-{kind}",
            )(self._owned)

    def _watch(self, kind: str) -> None:
        async def event(body: kopf.Body, **about: object) -> None:
            self._pass_on(kind, dict(body), gone=about["type"] == "DELETED")

        async def delete(
            body: kopf.Body,
            runtime: datetime.timedelta,
            **_: object,
        ) -> None:
            try:
                await self._there(
                    self._engine.finalize(kind, dict(body), waited_s=runtime.total_seconds())
                )
            except RetryLaterError as error:
                raise kopf.TemporaryError(str(error), delay=CLEAN_UP_RETRY_S) from error

        which = (w.KINDS[kind], w.plural(kind))
        kopf.on.event(*which, registry=self.registry, id=f"seen-{kind}")(event)
        if kind in FINALIZED:
            kopf.on.delete(*which, registry=self.registry, id="clean-up")(delete)

    async def _owned(self, body: kopf.Body, **_: object) -> None:
        found = dict(body)
        self._loop.call_soon_threadsafe(self._engine.owned_seen, found)

    def _pass_on(self, kind: str, body: KubeObject, *, gone: bool) -> None:
        def seen() -> None:
            self._engine.seen(kind, body, gone=gone)

        self._loop.call_soon_threadsafe(seen)

    async def _there(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run ``work`` on the engine's loop and wait for it here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.persistence.finalizer = w.FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=w.GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=w.GROUP)
    settings.posting.enabled = False  # our own Events have reasons of their own
    settings.scanning.disabled = True  # one namespace, resources known: no rights beyond it
    settings.networking.request_timeout = REQUEST_TIMEOUT_S
    settings.networking.connect_timeout = CONNECT_TIMEOUT_S
    return settings


class KopfThread:
    """Runs kopf's operator from ``start`` to ``stop``."""

    def __init__(self, handlers: Handlers, namespace: str) -> None:
        self._handlers = handlers
        self._namespace = namespace
        self._flag = threading.Event()
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        """Why kopf ended; done only when it has."""
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    async def stop(self) -> None:
        """End it; after ``STOP_TIMEOUT_S`` it is left behind, and does nothing more of ours."""
        self._flag.set()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await asyncio.shield(self.ended)
        except TimeoutError:
            _log.warning("kopf did not end in %s s", STOP_TIMEOUT_S)

    def _run(self) -> None:
        why = "it ended by itself"
        try:
            asyncio.run(
                kopf.operator(
                    registry=self._handlers.registry,
                    settings=self._handlers.settings,
                    namespaces=[self._namespace],
                    standalone=True,
                    stop_flag=self._flag,
                )
            )
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"
            _log.exception("kopf ended")
        self._tell(why)

    def _tell(self, why: str) -> None:
        def done() -> None:
            if not self.ended.done():
                self.ended.set_result(why)

        try:
            self._loop.call_soon_threadsafe(done)
        except RuntimeError:
            return  # the engine's loop has ended: there is no waiter
