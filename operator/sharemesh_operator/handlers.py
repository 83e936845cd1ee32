"""kopf's part: it watches, keeps finalizers, and passes on what it sees. It decides nothing."""

import asyncio
import datetime
from collections.abc import Coroutine
from typing import Any, TypeVar

import kopf

import sharemesh_operator.resources.names as w
from sharemesh_operator.cluster.credentials import ApiServer
from sharemesh_operator.cluster.engine import Engine
from sharemesh_operator.cluster.kube import RetryLaterError
from sharemesh_operator.resources.names import KubeObject

Result = TypeVar("Result")

VERSION = "v1alpha1"
CUSTOM = {
    "ShareCluster": "shareclusters",
    "ShareTopic": "sharetopics",
    "ShareGroup": "sharegroups",
    "ShareGroupOperation": "sharegroupoperations",
}
FINALIZED = ("ShareCluster", "ShareTopic", "ShareGroup")
OWNED = (
    ("", "v1", "pods"),
    ("", "v1", "services"),
    ("", "v1", "configmaps"),
    ("apps", "v1", "statefulsets"),
    ("policy", "v1", "poddisruptionbudgets"),
)
CLEAN_UP_RETRY_S = 2.0
REQUEST_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0


class Handlers:
    """kopf's registry and settings for one term; its callbacks run the engine on its own loop."""

    def __init__(self, engine: Engine, server: ApiServer, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._server = server
        self._loop = loop
        self.registry = kopf.OperatorRegistry()
        self.settings = _settings()
        kopf.on.login(registry=self.registry)(self._login)
        for kind, plural in CUSTOM.items():
            self._watch(kind, plural)
        for group, version, plural in OWNED:
            kopf.on.event(
                group,
                version,
                plural,
                labels={w.MANAGED_BY_LABEL: w.FIELD_MANAGER},
                registry=self.registry,
                id=f"owned-{plural}",
            )(self._owned)

    def _watch(self, kind: str, plural: str) -> None:
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

        kopf.on.event(w.GROUP, VERSION, plural, registry=self.registry, id=f"seen-{plural}")(event)
        if kind in FINALIZED:
            kopf.on.delete(w.GROUP, VERSION, plural, registry=self.registry, id="clean-up")(delete)

    async def _owned(self, body: kopf.Body, **_: object) -> None:
        found = dict(body)
        self._loop.call_soon_threadsafe(self._engine.owned_seen, found)

    def _login(self, **_: object) -> kopf.ConnectionInfo:
        return self._server.for_kopf()

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
