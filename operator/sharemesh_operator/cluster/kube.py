"""The Kubernetes API as far as the operator needs it: read, apply, delete, tell."""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import quote

import aiohttp

import sharemesh_operator.resources.names as w
from sharemesh.ports.clock import Clock
from sharemesh_operator.cluster.credentials import ApiServer
from sharemesh_operator.resources.names import KubeObject


class RetryLaterError(Exception):
    """The clean-up cannot be done now; the message says why. It is tried again, within bounds."""


def now_time(clock: Clock) -> datetime.datetime:
    """Return the wall clock's instant."""
    return datetime.datetime.fromtimestamp(clock.wall_ms() / 1_000, tz=datetime.UTC)


def now_text(clock: Clock) -> str:
    """Return the wall clock's instant in RFC 3339, whole seconds."""
    return now_time(clock).strftime("%Y-%m-%dT%H:%M:%SZ")


REQUEST_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0
CONNECTIONS_MAX = 16
LIST_PAGE = 500
PAGES_MAX = 100


class KubeError(Exception):
    """The API server refused, or could not be reached (status 0)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{reason or status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """Where objects of a kind are found."""

    path: str
    plural: str

    @property
    def api_version(self) -> str:
        """Group and version as objects name them."""
        return self.path.removeprefix("/apis/").removeprefix("/api/")


KINDS: Mapping[str, ResourceKind] = {
    "ShareCluster": ResourceKind(f"/apis/{w.API_VERSION}", "shareclusters"),
    "ShareTopic": ResourceKind(f"/apis/{w.API_VERSION}", "sharetopics"),
    "ShareGroup": ResourceKind(f"/apis/{w.API_VERSION}", "sharegroups"),
    "ShareGroupOperation": ResourceKind(f"/apis/{w.API_VERSION}", "sharegroupoperations"),
    "StatefulSet": ResourceKind("/apis/apps/v1", "statefulsets"),
    "PodDisruptionBudget": ResourceKind("/apis/policy/v1", "poddisruptionbudgets"),
    "Service": ResourceKind("/api/v1", "services"),
    "ConfigMap": ResourceKind("/api/v1", "configmaps"),
    "Pod": ResourceKind("/api/v1", "pods"),
    "PersistentVolumeClaim": ResourceKind("/api/v1", "persistentvolumeclaims"),
    "Event": ResourceKind("/api/v1", "events"),
}


class Kube:
    """A client of one API server and one namespace. Use it as an asynchronous context.

    Every call ends after ``REQUEST_TIMEOUT_S`` and raises ``KubeError`` if it was refused.
    """

    def __init__(
        self, server: ApiServer, namespace: str, *, agent: str = "sharemesh-operator"
    ) -> None:
        self._agent = agent
        self._server = server
        self._namespace = namespace
        self._http: aiohttp.ClientSession | None = None
        self.denied = 0
        """Requests that the API server's rules did not allow."""

    async def __aenter__(self) -> Self:
        context = self._server.ssl_context()
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX, ssl=context if context is not None else True
            ),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def served(self, kinds: tuple[str, ...]) -> bool:
        """Return whether the API server knows the custom resources of these kinds."""
        try:
            found = await self._call("GET", f"/apis/{w.API_VERSION}")
        except KubeError as error:
            if error.status == 404:
                return False
            raise
        names = {each.get("name") for each in found.get("resources") or ()}
        return all(KINDS[kind].plural in names for kind in kinds)

    async def get(self, kind: str, name: str) -> KubeObject | None:
        """Return one object, or None if it is not there."""
        try:
            return await self._call("GET", self._path(kind, name))
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def list(self, kind: str, selector: Mapping[str, str] | None = None) -> list[KubeObject]:
        """Return all objects of a kind that have these labels."""
        query = {"limit": str(LIST_PAGE)}
        if selector:
            query["labelSelector"] = w.selector_text(dict(selector))
        found: list[KubeObject] = []
        for _ in range(PAGES_MAX):
            page = await self._call("GET", self._path(kind), query=query)
            for item in page.get("items") or ():
                # Items of a list do not say what they are.
                found.append({"apiVersion": KINDS[kind].api_version, "kind": kind, **item})
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return found
        raise KubeError(0, "TooMany", f"more than {PAGES_MAX * LIST_PAGE} objects of kind {kind}")

    async def apply(self, wanted: KubeObject) -> KubeObject:
        """Let an object be as we want it: server-side apply, our fields win."""
        path = self._path(wanted["kind"], wanted["metadata"]["name"])
        query = {"fieldManager": w.FIELD_MANAGER, "force": "true"}
        kind = "application/apply-patch+yaml"
        return await self._call("PATCH", path, query=query, body=wanted, content_type=kind)

    async def patch(
        self, kind: str, name: str, change: KubeObject, *, subresource: str = ""
    ) -> KubeObject | None:
        """Merge a change into an object; None if it is gone."""
        path = self._path(kind, name) + (f"/{subresource}" if subresource else "")
        content_type = "application/merge-patch+json"
        query = {"fieldManager": w.FIELD_MANAGER}
        try:
            return await self._call(
                "PATCH", path, query=query, body=change, content_type=content_type
            )
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def delete(self, kind: str, name: str, *, uid: str = "") -> None:
        """Delete an object, if it is the one of this uid; one that is gone is fine."""
        body: KubeObject = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            await self._call("DELETE", self._path(kind, name), body=body)
        except KubeError as error:
            if error.status not in (404, 409):
                raise

    async def create(self, wanted: KubeObject) -> KubeObject:
        """Create an object."""
        return await self._call("POST", self._path(wanted["kind"]), body=wanted)

    def _path(self, kind: str, name: str = "") -> str:
        where = KINDS[kind]
        path = f"{where.path}/namespaces/{quote(self._namespace)}/{where.plural}"
        return f"{path}/{quote(name)}" if name else path

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: KubeObject | None = None,
        content_type: str = "application/json",
    ) -> KubeObject:
        assert self._http is not None
        headers = {"Accept": "application/json", "User-Agent": self._agent}
        token = self._server.token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        try:
            async with self._http.request(
                method, self._server.url + path, params=query, data=data, headers=headers
            ) as answer:
                text = await answer.text()
                status = answer.status
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise KubeError(
                0, "Unreachable", f"{method} {path}: {type(error).__name__}: {error}"
            ) from error
        return self._answer(method, path, status, text)

    def _answer(self, method: str, path: str, status: int, text: str) -> KubeObject:
        try:
            found = json.loads(text)
        except ValueError:
            found = {"message": text[:200]}
        if status < 400 and isinstance(found, dict):
            return found
        if status in (401, 403):
            self.denied += 1
        message = found.get("message", "") if isinstance(found, dict) else ""
        reason = found.get("reason", "") if isinstance(found, dict) else ""
        raise KubeError(status, reason or str(status), f"{method} {path}: {message}")
