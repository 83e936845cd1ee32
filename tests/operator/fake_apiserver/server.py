"""An API server without Kubernetes: enough of it for kopf and for the operator's own client.

What it has is what the contract suite checks on it and on a real one: one global resourceVersion,
generation, status isolation, server-side apply, finalizers, owner references, optimistic
concurrency, pages, watches from a revision with 410 after compaction, structural schemas. It has
no RBAC, no admission, no CEL rules, no shared field ownership (the last applier wins, lists are
atomic), and nothing that makes pods: see ``node``.
"""

import asyncio
import functools
import json
from pathlib import Path

import kopf
import yaml
from aiohttp import web

from tests.operator.fake_apiserver.store import RefusalError, Store, matches

CRDS = Path(__file__).parents[3] / "charts" / "sharemesh-crds" / "templates"
BOOKMARK_S = 1.0
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


@functools.cache
def definitions():
    """Return the custom resource definitions of the chart, read once."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [
        definition
        for path in sorted(CRDS.glob("*.yaml"))
        for definition in yaml.load_all(path.read_text(), loader)
        if definition
    ]


class ApiServer:
    """Use it as an asynchronous context; ``url`` is where it listens."""

    def __init__(self, *, history=2_000):
        self.store = Store(history=history)
        self.requests = []
        self.refuse = None
        """A function (method, path) -> RefusalError or None, to let requests fail."""
        for definition in definitions():
            self.store.register(definition)
        self._runner = None
        self.url = ""

    async def __aenter__(self):
        application = web.Application(client_max_size=8 << 20)
        application.router.add_route("*", "/{tail:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()

    def login(self):
        """Return how the operator's client and kopf reach it."""
        return kopf.ConnectionInfo(server=self.url)

    async def _serve(self, request):
        agent = request.headers.get("User-Agent", "")
        self.requests.append((request.method, request.path_qs, agent))
        try:
            refusal = self.refuse(request.method, request.path) if self.refuse else None
            if refusal is not None:
                raise refusal
            return await self._route(request)
        except ConnectionError:
            return web.Response()  # nobody is there any more to read it
        except RefusalError as error:
            body = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "code": error.code,
                "reason": error.reason,
                "message": error.message,
            }
            return web.json_response(body, status=error.code)

    async def _route(self, request):
        parts = request.path.strip("/").split("/")
        match parts:
            case ["version"]:
                return web.json_response({"major": "1", "minor": "34", "gitVersion": "v1.34.0"})
            case ["api"]:
                return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
            case ["apis"]:
                return web.json_response(self._groups())
            case ["api", version, *rest]:
                group = ""
            case ["apis", group, version, *rest]:
                pass
            case _:
                raise RefusalError(404, "NotFound", request.path)
        if not rest:
            return web.json_response(self._kinds(group, version))
        namespace = None
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = self.store.resources.get((group, version, rest[0]))
        name, sub = (*rest[1:], "", "")[:2]
        if resource is None or (sub and sub not in resource.subresources):
            raise RefusalError(404, "NotFound", "the server could not find the requested resource")
        return await self._handle(request, resource, namespace, name, sub)

    async def _handle(self, request, resource, namespace, name, sub):
        if request.method == "GET":
            if name:
                return web.json_response(self.store.get(resource, namespace, name))
            if request.query.get("watch") in ("true", "1"):
                return await self._watch(request, resource, namespace)
            return self._list(request, resource, namespace)
        text = await request.text()
        body = json.loads(text) if text else {}
        if request.method == "DELETE":
            uid = (body.get("preconditions") or {}).get("uid", "")
            return web.json_response(await self.store.delete(resource, namespace, name, uid=uid))
        if request.method == "POST":
            return web.json_response(await self.store.create(resource, namespace, body), status=201)
        if request.method == "PUT":
            done = await self.store.update(
                resource, namespace, name, body, status_only=sub == "status"
            )
            return web.json_response(done)
        return await self._patch(request, resource, (namespace, name, sub), body)

    async def _patch(self, request, resource, where, body):
        namespace, name, sub = where
        if sub == "scale":
            change = body["spec"]["replicas"]
            for part in reversed(resource.scale_path.strip(".").split(".")):
                change = {part: change}
            return web.json_response(
                await self.store.merge_patch(resource, namespace, name, change)
            )
        if request.content_type == "application/apply-patch+yaml":
            manager = request.query["fieldManager"]
            done, code = await self.store.apply(resource, namespace, name, body, manager)
            return web.json_response(done, status=code)
        if request.content_type == "application/json-patch+json":
            return web.json_response(
                await self.store.json_patch(resource, namespace, name, body, sub=sub)
            )
        if request.content_type != "application/merge-patch+json":
            raise RefusalError(415, "UnsupportedMediaType", request.content_type)
        done = await self.store.merge_patch(resource, namespace, name, body, sub=sub)
        return web.json_response(done)

    def _list(self, request, resource, namespace):
        items = self.store.select(resource, namespace, labels_of(request))
        limit, start = int(request.query.get("limit", 0)), int(request.query.get("continue") or 0)
        end = start + limit if limit else len(items)
        shown = [
            {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}
            for item in items[start:end]
        ]  # items of a list do not say what they are, as from a real one
        meta = {"resourceVersion": str(self.store.revision)}
        if end < len(items):
            meta["continue"] = str(end)
        kind = f"{resource.kind}List"
        return web.json_response(
            {"kind": kind, "apiVersion": resource.api_version, "metadata": meta, "items": shown}
        )

    async def _watch(self, request, resource, namespace):
        store, labels = self.store, labels_of(request)
        loop = asyncio.get_running_loop()
        end = loop.time() + float(request.query.get("timeoutSeconds", 300))
        at = int(request.query.get("resourceVersion") or store.revision)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)

        async def send(kind, body):
            await response.write(json.dumps({"type": kind, "object": body}).encode() + b"\n")

        while loop.time() < end:
            if at < store.compacted:
                gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                await send("ERROR", gone)
                break
            todo = [change for change in store.changes if change.revision > at]
            at = max(at, store.revision)
            for change in todo:
                here = namespace in (None, change.body["metadata"].get("namespace"))
                if change.key == resource.key and here and matches(change.body, labels):
                    await send(change.type, change.body)
            if not todo:
                if request.query.get("allowWatchBookmarks") == "true":
                    meta = {"resourceVersion": str(store.revision)}
                    await send(
                        "BOOKMARK",
                        {
                            "kind": resource.kind,
                            "apiVersion": resource.api_version,
                            "metadata": meta,
                        },
                    )
                await self._until_changed(min(BOOKMARK_S, max(end - loop.time(), 0.01)), at)
        return response

    async def _until_changed(self, seconds, at):
        try:
            async with asyncio.timeout(seconds), self.store.changed:
                await self.store.changed.wait_for(lambda: self.store.revision > at)
        except TimeoutError:
            return

    def _groups(self):
        groups = {}
        for each in self.store.resources.values():
            if each.group:
                groups.setdefault(each.group, set()).add(each.version)
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [
                {
                    "name": group,
                    "versions": [
                        {"groupVersion": f"{group}/{version}", "version": version}
                        for version in sorted(versions)
                    ],
                    "preferredVersion": {
                        "groupVersion": f"{group}/{min(versions)}",
                        "version": min(versions),
                    },
                }
                for group, versions in sorted(groups.items())
            ],
        }

    def _kinds(self, group, version):
        found = [
            each
            for each in self.store.resources.values()
            if (each.group, each.version) == (group, version)
        ]
        if not found:
            raise RefusalError(404, "NotFound", "the server could not find the requested resource")
        rows = []
        for each in found:
            row = {
                "kind": each.kind,
                "namespaced": each.namespaced,
                "singularName": each.kind.lower(),
            }
            rows.append({**row, "name": each.plural, "verbs": VERBS})
            rows += [
                {**row, "name": f"{each.plural}/{sub}", "verbs": ["get", "patch", "update"]}
                for sub in each.subresources
            ]
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": found[0].api_version,
            "resources": rows,
        }


def labels_of(request):
    text = request.query.get("labelSelector", "")
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
