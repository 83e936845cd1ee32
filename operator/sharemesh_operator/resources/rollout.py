"""The next step of a cluster from what its pods show: which to create, drain, restart, remove."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import sharemesh_operator.resources.names as w
from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.names import ROLES, KubeObject

_REVISION = "controller-revision-hash"
_SENTENCE = "sharemesh: "
"""Begins the line on stderr in which a process says why it ends."""
_PATIENT = {"ContainerCreating", "PodInitializing"}


@dataclass(frozen=True, slots=True)
class PodSeen:
    """One pod as the API server shows it."""

    name: str
    role: Role
    ordinal: int
    ready: bool
    outdated: bool = False
    terminating: bool = False
    trouble: str = ""
    exit_code: int = 0
    """How its process ended the last time; 0: it did not, or was told to stop."""
    last_words: str = ""
    """The sentence with which it ended then, if it said one."""
    drain_age_s: int | None = None
    """Time since its drain began; None: it is not draining."""
    skip_drain: bool = False
    held: str = ""
    """The operation that drained it and wants it to stay as it is."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """One process as the mesh knows it; ``serves`` counts partitions and shards it leads."""

    node_id: str
    draining: bool
    serves: int
    listens: bool = False
    """Whether clients of Kafka can reach it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that a step is decided from."""

    pods: tuple[PodSeen, ...] = ()
    replicas: Mapping[Role, int] = field(default_factory=dict)
    """Of the StatefulSets there are."""
    nodes: Mapping[str, NodeSeen] | None = None
    """None: the mesh cannot be asked now."""
    unled: int = 0
    settled: bool = True
    """Whether the newest templates are written and the StatefulSet controller has seen them."""


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """What to do now. All empty: nothing is left to do."""

    replicas: Mapping[Role, int]
    drain: tuple[str, ...] = ()
    """Nodes to drain."""
    delete: tuple[str, ...] = ()
    """Pods to delete; their StatefulSet creates them again."""
    reason: str = "UpToDate"
    message: str = ""

    @property
    def progressing(self) -> bool:
        """Whether the cluster is scaling or rolling."""
        return self.reason != "UpToDate"


def pod_seen(pod: KubeObject, sets: Mapping[Role, KubeObject], now_s: int) -> PodSeen | None:
    """Return a pod of the cluster, or None for one that is no role's."""
    meta, annotations = pod["metadata"], pod["metadata"].get("annotations") or {}
    labels = meta.get("labels") or {}
    ordinal = meta["name"].rpartition("-")[2]
    role = w.role_of(pod)
    if role is None or not ordinal.isdecimal():
        return None
    newest = (sets.get(role, {}).get("status") or {}).get("updateRevision", "")
    current = labels.get(_REVISION, "")
    since = annotations.get(w.DRAIN_ANNOTATION, "")
    exit_code, last_words = last_end(pod)
    return PodSeen(
        name=meta["name"],
        role=role,
        ordinal=int(ordinal),
        ready=is_ready(pod),
        outdated=bool(newest and current != newest) or w.RESTART_ANNOTATION in annotations,
        terminating="deletionTimestamp" in meta,
        trouble=trouble(pod),
        exit_code=exit_code,
        last_words=last_words,
        drain_age_s=max(0, now_s - int(since)) if since.isdecimal() else None,
        skip_drain=annotations.get(w.SKIP_DRAIN_ANNOTATION) == "true",
        held=annotations.get(w.HELD_ANNOTATION, ""),
    )


def is_ready(pod: KubeObject) -> bool:
    """Return whether a pod says that it is ready."""
    return any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in (pod.get("status") or {}).get("conditions") or ()
    )


def trouble(pod: KubeObject) -> str:
    """Return as text why a pod is not ready, if the kubelet or the scheduler reports a reason."""
    status = pod.get("status") or {}
    for each in status.get("containerStatuses") or ():
        state, last = each.get("state") or {}, each.get("lastState") or {}
        waiting = state.get("waiting") or {}
        if waiting and waiting.get("reason") not in _PATIENT:
            died = last.get("terminated") or {}
            code = f" (it ended with {died['exitCode']})" if "exitCode" in died else ""
            text = waiting.get("message", "")[:200]
            return f"waits: {waiting.get('reason', 'unknown')}{code} {text}".rstrip()
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return f"is not scheduled: {each.get('message', '')[:200]}"
    return ""


def last_end(pod: KubeObject) -> tuple[int, str]:
    """Return exit code and last sentence of the role's process that ended; 0 if none did.

    While the next one is being started, it is still the last word on what is wrong.
    """
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        states = [each.get(name) or {} for name in ("state", "lastState")]
        ended = next((state["terminated"] for state in states if "terminated" in state), None)
        if each.get("name") == w.CONTAINER and ended is not None:
            said = (ended.get("message") or "").splitlines()
            words = [line for line in said if line.startswith(_SENTENCE)]
            return ended.get("exitCode", 0), words[-1].removeprefix(_SENTENCE) if words else ""
    return 0, ""


def settled(sets: Mapping[Role, KubeObject]) -> bool:
    """Return whether the StatefulSet controller has observed the latest generation."""
    return all(
        (each.get("status") or {}).get("observedGeneration", 0)
        >= each["metadata"].get("generation", 1)
        for each in sets.values()
    )


def plan(spec: ClusterSpec, seen: Seen) -> RolloutPlan:
    """Return the next step; repeating it changes nothing.

    More pods come at once. Fewer: the last ones hand over first. New templates: one pod after
    another, only while all others serve and nothing is without a leader.
    """
    replicas = {role: _replicas(spec, seen, role) for role in ROLES}
    shrinking = [role for role in ROLES if replicas[role] > spec.roles[role].replicas]
    for role in shrinking:
        step = _shrink(spec, seen, role, replicas)
        if step is not None:
            return step
    growing = [role for role in ROLES if replicas[role] > seen.replicas.get(role, replicas[role])]
    step = _roll(spec, seen, replicas)
    if step is not None:
        return step
    if growing:
        names = ", ".join(str(role) for role in growing)
        return RolloutPlan(replicas, reason="ScalingUp", message=f"more pods of {names}")
    starting = [pod.name for pod in seen.pods if not pod.ready]
    wanted = sum(replicas.values())
    if len(seen.pods) < wanted or starting:
        return RolloutPlan(replicas, reason="PodsStarting", message=_waiting(spec, seen))
    if not seen.settled:
        return RolloutPlan(
            replicas, reason="TemplatesChanging", message="pod templates are being written"
        )
    return RolloutPlan(replicas)


def _replicas(spec: ClusterSpec, seen: Seen, role: Role) -> int:
    return max(spec.roles[role].replicas, seen.replicas.get(role, 0))


def _shrink(
    spec: ClusterSpec, seen: Seen, role: Role, replicas: dict[Role, int]
) -> RolloutPlan | None:
    wanted = spec.roles[role].replicas
    leaving = [pod for pod in seen.pods if pod.role is role and pod.ordinal >= wanted]
    busy = [pod for pod in leaving if not _may_go(spec, seen, pod)]
    if not busy:
        replicas[role] = wanted
        return None
    untold = tuple(pod.name for pod in busy if pod.drain_age_s is None)
    if untold and not seen.settled:
        untold = ()
    names = ", ".join(pod.name for pod in busy)
    return RolloutPlan(
        replicas, drain=untold, reason="Draining", message=f"{names} hand over, then go"
    )


def _roll(spec: ClusterSpec, seen: Seen, replicas: Mapping[Role, int]) -> RolloutPlan | None:
    outdated = [
        pod for pod in seen.pods if not pod.terminating and (pod.outdated or _left_over(seen, pod))
    ]
    if not outdated or not seen.settled:
        return None
    left = f"{len(outdated)} of {len(seen.pods)} pods are to be restarted"
    broken = [pod for pod in outdated if not pod.ready]
    if broken:  # it serves nothing: a new one can only be better
        return RolloutPlan(replicas, delete=(broken[0].name,), reason="RollingUpdate", message=left)
    nxt = min(outdated, key=lambda pod: (ROLES.index(pod.role), -pod.ordinal))
    # A draining pod goes first: only one may be on its way out.
    told = [pod for pod in outdated if pod.drain_age_s is not None]
    nxt = told[0] if told else nxt
    why = _why_wait(spec, seen, nxt)
    if why:
        return RolloutPlan(replicas, reason="RollingUpdate", message=f"{left}; waiting: {why}")
    if _may_go(spec, seen, nxt):
        return RolloutPlan(replicas, delete=(nxt.name,), reason="RollingUpdate", message=left)
    drain = (nxt.name,) if nxt.drain_age_s is None else ()
    message = f"{left}; {nxt.name} hands over"
    return RolloutPlan(replicas, drain=drain, reason="RollingUpdate", message=message)


def _left_over(seen: Seen, pod: PodSeen) -> bool:
    """Return whether a pod was drained for a roll that was called off: it leads nothing now."""
    if pod.held or pod.drain_age_s is None:
        return False
    node = (seen.nodes or {}).get(pod.name)
    return node is not None and node.draining


def _why_wait(spec: ClusterSpec, seen: Seen, nxt: PodSeen) -> str:
    away = [pod for pod in seen.pods if not pod.ready or pod.terminating]
    allowed = spec.roles[nxt.role].max_unavailable
    others = [pod for pod in away if pod.role is not nxt.role]
    if others or len(away) >= allowed or _missing(spec, seen):
        return _waiting(spec, seen)
    if seen.nodes is None:
        return "the mesh cannot be asked who serves what"
    if len(seen.pods) > 1 and seen.unled:
        return f"{seen.unled} partitions or shards are without a leader"
    unknown = [pod.name for pod in seen.pods if pod.name not in seen.nodes]
    return f"{', '.join(unknown)} not registered" if unknown else ""


def _may_go(spec: ClusterSpec, seen: Seen, pod: PodSeen) -> bool:
    """Return whether a pod serves nothing any more, or had all the time that it may have."""
    if pod.skip_drain or pod.terminating or not pod.ready:
        return True
    alone = not any(
        other.ready and other.role is pod.role and other.name != pod.name for other in seen.pods
    )
    if alone:
        return True  # no other pod can take over: what it leads waits for its restart
    if pod.drain_age_s is None:
        return False
    if pod.drain_age_s >= spec.roles[pod.role].drain_timeout_s:
        return True
    node = (seen.nodes or {}).get(pod.name)
    return seen.nodes is not None and (node is None or (node.draining and node.serves == 0))


def _missing(spec: ClusterSpec, seen: Seen) -> bool:
    return any(
        sum(pod.role is role for pod in seen.pods)
        < min(spec.roles[role].replicas, seen.replicas.get(role, 0))
        for role in ROLES
    )


def _waiting(spec: ClusterSpec, seen: Seen) -> str:
    """Return in words which pods are not there yet, and why if it is known."""
    told = [
        f"{pod.name} {'is leaving' if pod.terminating else pod.trouble or 'is not ready'}"
        for pod in seen.pods
        if not pod.ready or pod.terminating
    ]
    for role in ROLES:
        count = sum(pod.role is role for pod in seen.pods)
        wanted = spec.roles[role].replicas
        if count < wanted:
            told.append(f"{wanted - count} pods of {spec.workload(role)} are not made yet")
    return "; ".join(told[:5])
