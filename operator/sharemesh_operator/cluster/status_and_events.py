"""What the operator says about an object: its status, and Kubernetes Events; both bounded."""

import logging
from collections import OrderedDict
from collections.abc import Sequence

import sharemesh_operator.resources.names as w
from sharemesh.ports.clock import Clock
from sharemesh_operator.cluster.kube import Kube, KubeError, now_text
from sharemesh_operator.resources.conditions import Condition, flipped, merged
from sharemesh_operator.resources.names import KubeObject

INTERVAL_MS = 10_000
REPEAT_MS = 120_000
REMEMBERED_MAX = 1_000
MESSAGE_CHARS_MAX = 1_000

_log = logging.getLogger(__name__)


class StatusWriter:
    """Writes the status of objects if it changed."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._written_ms: dict[str, int] = {}
        self.writes = 0

    async def write(
        self, body: KubeObject, status: KubeObject, conditions: Sequence[Condition]
    ) -> int | None:
        """Patch the status of an object; null fields are removed.

        Returns:
            None if it stands now; else the milliseconds after which it may be written, because
            only numbers changed and the last write was less than ``INTERVAL_MS`` ago.
        """
        meta = body["metadata"]
        old = body.get("status") or {}
        known = old.get("conditions") or []
        generation = meta.get("generation", 0)
        found = merged(known, conditions, generation=generation, now=now_text(self._clock))
        wanted = {**status, "conditions": found}
        if all(_same(value, old.get(name)) for name, value in wanted.items()):
            return None
        urgent = (
            flipped(known, found) or old.get("observedGeneration") != status["observedGeneration"]
        )
        now_ms = self._clock.now_ms()
        last_ms = self._written_ms.get(meta["uid"])
        if last_ms is not None and not urgent and now_ms - last_ms < INTERVAL_MS:
            return INTERVAL_MS - (now_ms - last_ms)
        await self._kube.patch(body["kind"], meta["name"], {"status": wanted}, subresource="status")
        self._written_ms[meta["uid"]] = now_ms
        self.writes += 1
        return None

    def forget(self, uid: str) -> None:
        """Forget a deleted object."""
        self._written_ms.pop(uid, None)


class Events:
    """Posts Events about objects, the same once in a while only.

    Warnings count as the same by their reason: their words often tell of the last attempt.
    """

    def __init__(self, kube: Kube, clock: Clock, identity: str) -> None:
        self._kube = kube
        self._clock = clock
        self._identity = identity
        self._told: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    async def tell(
        self, about: KubeObject, reason: str, message: str, *, warning: bool = False
    ) -> None:
        """Post an Event. One that cannot be posted is only logged."""
        meta = about["metadata"]
        key = (meta.get("uid", meta["name"]), reason, "" if warning else message)
        now_ms = self._clock.now_ms()
        if now_ms - self._told.get(key, -REPEAT_MS) < REPEAT_MS:
            return
        self._told[key] = now_ms
        while len(self._told) > REMEMBERED_MAX:
            self._told.popitem(last=False)
        _log.info("%s %s: %s: %s", about.get("kind"), meta["name"], reason, message)
        now = now_text(self._clock)
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "generateName": f"{meta['name'][:200]}.",
                "namespace": meta["namespace"],
            },
            "involvedObject": {
                "apiVersion": about.get("apiVersion", w.API_VERSION),
                "kind": about.get("kind", ""),
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta.get("uid", ""),
            },
            "reason": reason,
            "message": message[:MESSAGE_CHARS_MAX],
            "type": "Warning" if warning else "Normal",
            "source": {"component": w.FIELD_MANAGER},
            "reportingComponent": w.FIELD_MANAGER,
            "reportingInstance": self._identity,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._kube.create(event)
        except KubeError as error:
            _log.warning("event %s not posted: %s", reason, error)


def _same(wanted: object, live: object) -> bool:
    """Return whether a field stands as wanted; a null in ``wanted`` is an absent field."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            _same(value, live.get(name)) for name, value in wanted.items()
        )
    return wanted == live
