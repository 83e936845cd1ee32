"""ShareGroupOperations: things that are done once, and when they are over."""

import datetime

import sharemesh_operator.resources.names as w
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.conditions import Condition, find
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.rollout import NodeSeen

SUCCEEDED = "Succeeded"
EARLIEST = -2
LATEST = -1
"""Timestamps of ListOffsets with a meaning of their own."""
GIVE_UP_S = 600
DRAIN_MARGIN_S = 30

_TEXTS = {
    "OffsetsReset": "{partitions} partitions of group {group!r} start at {position}",
    "StateDeleted": "group {group!r} and its share state are deleted",
    "NothingToDelete": "group {group!r} is not there",
    "Drained": "{name} leads nothing any more; delete the pod to let it take part again",
    "Draining": "{name} hands over; it leads {serves} partitions or shards",
    "DrainTimedOut": "{name} still leads {serves} partitions or shards after {waited_s} s; is "
    "there another ready pod of its role?",
    "TimedOut": "not done within {limit_s} s: {last}",
    "Refused": "{why}",
    "GroupNotFound": "there is no ShareGroup {name!r} in namespace {namespace!r}",
    "OtherCluster": "ShareGroup {name!r} belongs to another ShareCluster",
    "GroupNotEmpty": "group {group!r} has members; stop its consumers, then create this again",
    "TopicNotFound": "topic {name!r}: {error}",
    "NodeNotFound": "there is no pod {name!r} of ShareCluster {cluster!r}",
}
"""What is said with each reason, and what to do."""


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
        "startTime": before.get("startTime") or now,
    }
    if partitions is not None:
        found["partitions"] = partitions
    if over:
        found["completionTime"] = now
    return found


def age_s(body: KubeObject, now: datetime.datetime) -> float:
    """Return how long ago an operation was begun."""
    began = (body.get("status") or {}).get("startTime")
    return (now - parse_time(began)).total_seconds() if began else 0


def is_pod_of(spec: ClusterSpec, pod: KubeObject) -> bool:
    """Return whether a pod belongs to a cluster."""
    return (pod["metadata"].get("labels") or {}).get(w.CLUSTER_LABEL) == spec.name


def drain_state(
    spec: ClusterSpec, pod: KubeObject, node: NodeSeen | None, *, now_s: int
) -> Condition:
    """Return how far the hand-over of a pod is that was asked for it; ``node`` is its process."""
    name = pod["metadata"]["name"]
    if node is None or (node.draining and node.serves == 0):
        return done("Drained", name=name)
    waited_s = now_s - int(pod["metadata"]["annotations"].get(w.DRAIN_ANNOTATION, "0"))
    if waited_s <= max(role.drain_timeout_s for role in spec.roles.values()) + DRAIN_MARGIN_S:
        return under_way("Draining", name=name, serves=node.serves)
    return failed("DrainTimedOut", name=name, serves=node.serves, waited_s=waited_s)


def done(reason: str, **about: object) -> Condition:
    """Return the good end of an operation."""
    return Condition.true(SUCCEEDED, reason, _TEXTS[reason].format(**about))


def failed(reason: str, **about: object) -> Condition:
    """Return the bad end of an operation."""
    return Condition.false(SUCCEEDED, reason, _TEXTS[reason].format(**about))


def under_way(reason: str, **about: object) -> Condition:
    """Return the state of an operation that has not come to its end."""
    return Condition.unknown(SUCCEEDED, reason, _TEXTS[reason].format(**about))


def parse_time(text: str) -> datetime.datetime:
    """Return an instant of the API (RFC 3339)."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
