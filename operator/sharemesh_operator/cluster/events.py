"""Kubernetes Events: what a person should see, not more often than it helps."""

import logging
from collections import OrderedDict

import sharemesh_operator.resources.names as w
from sharemesh.ports.clock import Clock
from sharemesh_operator.cluster.kube import Kube, KubeError, now_text
from sharemesh_operator.resources.names import KubeObject

REPEAT_MS = 120_000
REMEMBERED_MAX = 1_000
MESSAGE_CHARS_MAX = 1_000

_log = logging.getLogger(__name__)


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
