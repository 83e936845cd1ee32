"""Objects of the API-server stand-in: versions, finalizers, ownership, field managers, history."""

import asyncio
import copy
import datetime
import uuid
from dataclasses import dataclass, field

import jsonpatch

from tests.operator.fake_apiserver.schema import InvalidError, shaped

HISTORY = 2_000
_FIXED = ("uid", "creationTimestamp", "deletionTimestamp", "generation", "name", "namespace")


class RefusalError(Exception):
    """An answer with an error status."""

    def __init__(self, code, reason, message=""):
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


@dataclass
class Resource:
    """One kind of object."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: tuple = ("status",)
    schema: dict | None = None
    scale_path: str = ".spec.replicas"
    custom: bool = False

    @property
    def key(self):
        return self.group, self.version, self.plural

    @property
    def api_version(self):
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass
class Change:
    revision: int
    key: tuple
    type: str
    body: dict


BUILT_IN = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    Resource("", "v1", "pods", "Pod"),
    Resource("", "v1", "services", "Service"),
    Resource("", "v1", "configmaps", "ConfigMap", subresources=()),
    Resource("", "v1", "events", "Event", subresources=()),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource("apps", "v1", "statefulsets", "StatefulSet", subresources=("status", "scale")),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
)


def now_text():
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Store:
    """All objects at one revision, and the changes that led there."""

    revision: int = 0
    compacted: int = 0
    history: int = HISTORY
    resources: dict = field(default_factory=lambda: {each.key: each for each in BUILT_IN})
    objects: dict = field(default_factory=dict)
    changes: list = field(default_factory=list)
    applied: dict = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def register(self, definition):
        """Learn the custom resources of a definition."""
        spec = definition["spec"]
        names = spec["names"]
        for each in spec["versions"]:
            sub = each.get("subresources") or {}
            scale = (sub.get("scale") or {}).get("specReplicasPath", ".spec.replicas")
            found = Resource(
                spec["group"],
                each["name"],
                names["plural"],
                names["kind"],
                spec["scope"] == "Namespaced",
                tuple(sub),
                each["schema"]["openAPIV3Schema"],
                scale,
                custom=True,
            )
            self.resources[found.key] = found

    # ---- reading ------------------------------------------------------------------------------

    def get(self, resource, namespace, name):
        found = self.objects.get((resource.key, namespace, name))
        if found is None:
            raise RefusalError(404, "NotFound", f'{resource.plural} "{name}" not found')
        return found

    def select(self, resource, namespace, labels):
        return [
            body
            for (key, where, _), body in sorted(self.objects.items(), key=lambda item: item[0][1:])
            if key == resource.key and namespace in (None, where) and matches(body, labels)
        ]

    # ---- writing ------------------------------------------------------------------------------

    async def create(self, resource, namespace, body):
        meta = body.setdefault("metadata", {})
        name = meta.get("name") or meta.get("generateName", "") + uuid.uuid4().hex[:5]
        if (resource.key, namespace, name) in self.objects:
            raise RefusalError(409, "AlreadyExists", f'{resource.plural} "{name}" already exists')
        meta.update(name=name, uid=str(uuid.uuid4()), creationTimestamp=now_text(), generation=1)
        if resource.namespaced:
            meta["namespace"] = namespace
        body.setdefault("apiVersion", resource.api_version)
        body.setdefault("kind", resource.kind)
        if resource.custom:
            body.pop("status", None)
        return await self._store(resource, namespace, name, self._shaped(resource, body), "ADDED")

    async def update(self, resource, namespace, name, new, *, status_only=False):
        old = self.get(resource, namespace, name)
        told = new.get("metadata", {}).get("resourceVersion")
        if told and told != old["metadata"]["resourceVersion"]:
            raise RefusalError(409, "Conflict", "the object has been modified")
        if status_only:
            new = {**copy.deepcopy(old), "status": new.get("status") or {}}
        elif "status" in resource.subresources:
            new = {name_: value for name_, value in new.items() if name_ != "status"}
            if "status" in old:
                new["status"] = copy.deepcopy(old["status"])
        new["metadata"] = {**new["metadata"]}
        for name_ in _FIXED:
            if name_ in old["metadata"]:
                new["metadata"][name_] = old["metadata"][name_]
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        new = self._shaped(resource, new)
        if new == old:
            return old
        if _wanted(new) != _wanted(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        if old["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return await self._remove(resource, namespace, name, new)
        return await self._store(resource, namespace, name, new, "MODIFIED")

    async def apply(self, resource, namespace, name, body, manager):
        """Server-side apply with force: our fields as we say, fields we left out are taken away."""
        owner = (resource.key, namespace, name, manager)
        before = self.applied.get(owner, {})
        self.applied[owner] = copy.deepcopy(body)
        old = self.objects.get((resource.key, namespace, name))
        if old is None:
            return await self.create(resource, namespace, copy.deepcopy(body)), 201
        new = merged(_without(copy.deepcopy(old), before, body), body, nulls=False)
        return await self.update(resource, namespace, name, new), 200

    async def merge_patch(self, resource, namespace, name, change, *, sub=""):
        old = self.get(resource, namespace, name)
        new = merged(copy.deepcopy(old), change)
        if "resourceVersion" not in (change.get("metadata") or {}):
            new["metadata"].pop("resourceVersion", None)
        return await self.update(resource, namespace, name, new, status_only=sub == "status")

    async def json_patch(self, resource, namespace, name, change, *, sub=""):
        old = self.get(resource, namespace, name)
        try:
            new = jsonpatch.apply_patch(copy.deepcopy(old), change)
        except jsonpatch.JsonPatchException as error:
            raise RefusalError(422, "Invalid", str(error)) from error
        new["metadata"].pop("resourceVersion", None)
        return await self.update(resource, namespace, name, new, status_only=sub == "status")

    async def delete(self, resource, namespace, name, *, uid=""):
        old = self.get(resource, namespace, name)
        if uid and uid != old["metadata"]["uid"]:
            raise RefusalError(409, "Conflict", "the UID in the precondition differs")
        if not old["metadata"].get("finalizers"):
            return await self._remove(resource, namespace, name, copy.deepcopy(old))
        if "deletionTimestamp" in old["metadata"]:
            return old
        new = copy.deepcopy(old)
        new["metadata"]["deletionTimestamp"] = now_text()
        new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        return await self._store(resource, namespace, name, new, "MODIFIED")

    async def _store(self, resource, namespace, name, body, kind):
        self.revision += 1
        body["metadata"]["resourceVersion"] = str(self.revision)
        self.objects[resource.key, namespace, name] = body
        await self._note(resource, kind, body)
        return body

    async def _remove(self, resource, namespace, name, body):
        self.objects.pop((resource.key, namespace, name), None)
        self.revision += 1
        body["metadata"]["resourceVersion"] = str(self.revision)
        await self._note(resource, "DELETED", body)
        uid = body["metadata"]["uid"]
        for (key, where, other), each in list(self.objects.items()):  # garbage collection
            owners = each["metadata"].get("ownerReferences") or ()
            if any(owner.get("uid") == uid for owner in owners):
                await self.delete(self.resources[key], where, other)
        return body

    async def _note(self, resource, kind, body):
        async with self.changed:
            self.changes.append(Change(self.revision, resource.key, kind, copy.deepcopy(body)))
            if len(self.changes) > self.history:
                self.compacted = self.changes.pop(0).revision
            self.changed.notify_all()

    def compact(self):
        """Forget history, as etcd's compaction does."""
        self.compacted = self.revision
        self.changes.clear()

    def _shaped(self, resource, body):
        try:
            return shaped(resource.schema, body)
        except InvalidError as error:
            name = body["metadata"]["name"]
            raise RefusalError(
                422, "Invalid", f'{resource.kind}.{resource.group} "{name}" is invalid: {error}'
            ) from error


def matches(body, labels):
    mine = body["metadata"].get("labels") or {}
    return all(mine.get(name) == value for name, value in labels.items())


def merged(old, change, *, nulls=True):
    """Return a merge patch laid on an object (RFC 7396)."""
    for name, value in change.items():
        if value is None and nulls:
            old.pop(name, None)
        elif isinstance(value, dict):
            below = old.get(name)
            old[name] = merged(below if isinstance(below, dict) else {}, value, nulls=nulls)
        else:
            old[name] = copy.deepcopy(value)
    return old


def _without(live, before, now):
    """Return the object without fields that its manager applied before and now does not."""
    for name, value in before.items():
        if name not in now:
            live.pop(name, None)
        elif isinstance(value, dict) and isinstance(now[name], dict) and name in live:
            _without(live[name], value, now[name])
    return live


def _wanted(body):
    return {name: value for name, value in body.items() if name not in ("metadata", "status")}
