"""The Kubernetes API as far as the operator needs it: how to log in, read, apply, delete, post.

kopf's own client has no server-side apply, and the official one costs more than it saves (decision
0011); what TLS and authentication need is kopf's ``ConnectionInfo``.
"""

import dataclasses
import datetime
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import quote

import aiohttp
import kopf
import yaml

import sharemesh_operator.resources.names as w
from sharemesh.ports.clock import Clock
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh_operator.resources.names import KubeObject

REQUEST_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0
CONNECTIONS_MAX = 16
LIST_PAGE = 500
PAGES_MAX = 100
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Login: TypeAlias = Callable[[], kopf.ConnectionInfo]
"""Returns how the API server is reached now: the kubelet renews the token."""


class KubeError(Exception):
    """The API server refused, or could not be reached (status 0)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{reason or status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class RetryLaterError(Exception):
    """The clean-up cannot be done now; the message says why. It is tried again, within bounds."""


def now_time(clock: Clock) -> datetime.datetime:
    """Return the wall clock's instant."""
    return datetime.datetime.fromtimestamp(clock.wall_ms() / 1_000, tz=datetime.UTC)


def now_text(clock: Clock) -> str:
    """Return the wall clock's instant in RFC 3339, whole seconds."""
    return now_time(clock).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_login(kubeconfig: Path | None, environment: Mapping[str, str]) -> Login:
    """Return the login of a kubeconfig, or of the pod that this runs in.

    Args:
        kubeconfig: None: ``KUBECONFIG``, else the pod's service account.
        environment: The process's variables.

    Raises:
        StartError: SETTINGS; there is none, or it cannot be read.
    """
    named = environment.get("KUBECONFIG", "")
    path = kubeconfig or (Path(named) if named else None)
    if path is not None:
        try:
            return _login_of_file(path)
        except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError) as error:
            raise StartError(
                ExitCode.SETTINGS, f"kubeconfig {path} cannot be used: {error}"
            ) from error
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if not host or not (ACCOUNT / "token").exists():
        raise StartError(
            ExitCode.SETTINGS,
            "no API server: this is no pod with a service account; give --kubeconfig",
        )
    host = f"[{host}]" if ":" in host else host
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    pod = kopf.ConnectionInfo(server=f"https://{host}:{port}", ca_path=ACCOUNT / "ca.crt")
    return _with_token_of(ACCOUNT / "token", pod)


def _login_of_file(path: Path) -> Login:
    tree: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))

    def named(kind: str, name: str) -> dict[str, Any]:
        for entry in tree[f"{kind}s"]:
            if entry["name"] == name:
                found: dict[str, Any] = entry[kind]
                return found
        raise LookupError(f"no {kind} {name!r}")

    context = named("context", tree["current-context"])
    cluster, user = named("cluster", context["cluster"]), named("user", context["user"])

    def file(source: Mapping[str, Any], name: str) -> Path | None:
        wanted = name in source and f"{name}-data" not in source
        return path.parent / source[name] if wanted else None

    found = kopf.ConnectionInfo(
        server=cluster["server"].rstrip("/"),
        ca_path=file(cluster, "certificate-authority"),
        ca_data=cluster.get("certificate-authority-data"),
        certificate_path=file(user, "client-certificate"),
        certificate_data=user.get("client-certificate-data"),
        private_key_path=file(user, "client-key"),
        private_key_data=user.get("client-key-data"),
        token=user.get("token"),
        insecure=cluster.get("insecure-skip-tls-verify"),
    )
    return _with_token_of(Path(user["tokenFile"]), found) if "tokenFile" in user else lambda: found


def _with_token_of(file: Path, known: kopf.ConnectionInfo) -> Login:
    return lambda: dataclasses.replace(known, token=file.read_text(encoding="ascii").strip())


class Kube:
    """A client of one API server and one namespace. Use it as an asynchronous context.

    Every call ends after ``REQUEST_TIMEOUT_S`` and raises ``KubeError`` if it was refused.
    """

    def __init__(self, login: Login, namespace: str, *, agent: str = "sharemesh-operator") -> None:
        self._agent = agent
        self._login = login
        self._namespace = namespace
        self._http: aiohttp.ClientSession | None = None
        self.denied = 0
        """Requests that the API server's rules did not allow."""

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX, ssl=self._login().as_ssl_context()
            ),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.close()

    async def served(self, kinds: tuple[str, ...]) -> bool:
        """Return whether the API server knows the custom resources of these kinds."""
        found = await _or_none(self._call("GET", f"/apis/{w.API_VERSION}")) or {}
        names = {each.get("name") for each in found.get("resources") or ()}
        return all(w.plural(kind) in names for kind in kinds)

    async def get(self, kind: str, name: str) -> KubeObject | None:
        """Return one object, or None if it is not there."""
        return await _or_none(self._call("GET", self._path(kind, name)))

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
                found.append({"apiVersion": w.KINDS[kind], "kind": kind, **item})
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
        return await _or_none(
            self._call("PATCH", path, query=query, body=change, content_type=content_type)
        )

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
        version = w.KINDS[kind]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        path = f"{root}/namespaces/{quote(self._namespace)}/{w.plural(kind)}"
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
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        try:
            login = self._login()
            headers |= login.as_http_headers()
            async with self._http.request(
                method, login.server + path, params=query, data=data, headers=headers
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


async def _or_none(call: Awaitable[KubeObject]) -> KubeObject | None:
    try:
        return await call
    except KubeError as error:
        if error.status == 404:
            return None
        raise
