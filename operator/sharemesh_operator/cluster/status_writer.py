"""Status writes, bounded: at once when something flipped, else now and then."""

from collections.abc import Sequence

from sharemesh.ports.clock import Clock
from sharemesh_operator.cluster.kube import Kube, now_text
from sharemesh_operator.resources.conditions import Condition, flipped, merged
from sharemesh_operator.resources.names import KubeObject

INTERVAL_MS = 10_000


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
        """Bring the status of an object to what is said; null fields are taken away.

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
        """Drop what is known of an object that is gone."""
        self._written_ms.pop(uid, None)


def _same(wanted: object, live: object) -> bool:
    """Return whether a field stands as wanted; a null in ``wanted`` is an absent field."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            _same(value, live.get(name)) for name, value in wanted.items()
        )
    return wanted == live
