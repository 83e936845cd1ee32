"""ShareGroupOperations: things that are done once, and when they are over."""

import datetime
from collections.abc import Sequence

from sharemesh_operator.resources.conditions import Condition, find
from sharemesh_operator.resources.names import KubeObject

SUCCEEDED = "Succeeded"
EARLIEST = -2
LATEST = -1
"""Timestamps of ListOffsets with a meaning of their own."""


def finished(body: KubeObject) -> bool:
    """Return whether it came to its end, well or not; it is never done again."""
    found = find((body.get("status") or {}).get("conditions") or (), SUCCEEDED)
    return found is not None and found.get("status") in ("True", "False")


def timestamp_ms(body: KubeObject) -> int:
    """Return the time for ListOffsets that ``resetTo`` names."""
    spec = body["spec"]
    if spec["resetTo"] == "Timestamp":
        return round(parse_time(spec["resetTime"]).timestamp() * 1_000)
    return EARLIEST if spec["resetTo"] == "Earliest" else LATEST


def left_to_live_s(body: KubeObject, now: datetime.datetime) -> float | None:
    """Return how long a finished operation is still kept; None: it has not finished."""
    ended = (body.get("status") or {}).get("completionTime")
    if not ended or not finished(body):
        return None
    kept = body["spec"].get("ttlSecondsAfterFinished", 86_400)
    return float(kept - (now - parse_time(ended)).total_seconds())


def operation_status(
    body: KubeObject, *, now: str, partitions: int | None = None, over: bool
) -> KubeObject:
    """Return the status but for its conditions."""
    before = body.get("status") or {}
    found: KubeObject = {
        "observedGeneration": body["metadata"].get("generation", 0),
        "startTime": before.get("startTime") or now,
    }
    if partitions is not None:
        found["partitions"] = partitions
    if over:
        found["completionTime"] = now
    return found


def refused(problems: Sequence[str]) -> Condition:
    """Return the end of an operation that parts of the mesh refused."""
    return Condition.false(SUCCEEDED, "Refused", "; ".join(problems[:5]))


def parse_time(text: str) -> datetime.datetime:
    """Return an instant of the API (RFC 3339)."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
