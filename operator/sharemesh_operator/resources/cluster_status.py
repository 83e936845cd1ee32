"""Status of a ShareCluster: its conditions, each problem with what to do about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sharemesh_operator.resources.names as w
from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.kafka_listener_status import (
    external_kafka_bootstrap,
    listener_ready,
)
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.problems import NOT_OPENED, Problem
from sharemesh_operator.resources.rollout import PodSeen, RolloutPlan, Seen


@dataclass(frozen=True, slots=True)
class PlacementSeen:
    """Topic-partitions in numbers; ``loads`` are leaders' counts."""

    controller: str = ""
    token: int = 0
    generation: int = 0
    partitions: int = 0
    led: int = 0
    unassigned: int = 0
    loads: tuple[int, ...] = ()
    unled_shards: int = 0
    storage_problems: tuple[str, ...] = ()
    """What is wrong with the cluster's two topics in Kafka."""
    losses: tuple[str, ...] = ()
    """Shards that are not served because Kafka lost records of them."""
    damages: tuple[str, ...] = ()
    """Shards that are not served because their logs cannot be read."""
    users: int = 0
    """Users with passwords."""
    examples: tuple[str, ...] = ()
    """Some partitions without a leader, with the reason."""

    @property
    def unled(self) -> int:
        """Partitions and coordinator shards without a leader."""
        return self.partitions - self.led + self.unled_shards

    @property
    def max_load_percent(self) -> int:
        """Load of the fullest leader as a share of the mean; 0 without partitions."""
        mean = sum(self.loads) / len(self.loads) if self.loads else 0
        return round(max(self.loads) * 100 / mean) if mean else 0


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """All that the status is made from."""

    seen: Seen
    plan: RolloutPlan
    placement: PlacementSeen | None = None
    """None: etcd or the cluster's record cannot be read."""
    mesh_problem: Problem | None = None
    storage_problem: Problem | None = None
    unbalanced: tuple[str, ...] = ()
    """Services for clients of Kafka that their load balancer has given no address yet."""


def storage_problem(spec: ClusterSpec, claim: KubeObject | None) -> Problem | None:
    """Return what is wrong with the data directory; ``claim`` is the one that is named."""
    name = spec.storage.shared_claim
    if not name:
        return None
    if claim is None:
        return Problem(
            "ClaimNotFound",
            f"there is no PersistentVolumeClaim {name!r} in namespace {spec.namespace!r}; create "
            "it with access mode ReadWriteMany",
        )
    modes = (claim.get("spec") or {}).get("accessModes") or ()
    if "ReadWriteMany" not in modes:
        return Problem(
            "StorageNotShared",
            f"PersistentVolumeClaim {name!r} is {', '.join(modes) or 'of no access mode'}; "
            + (
                "pods of several nodes read generations: use a claim with access mode ReadWriteMany"
                if spec.storage.kafka is not None
                else "all pods write one data directory: use a claim with access mode "
                "ReadWriteMany, or storage type SingleNode"
            ),
        )
    if (claim.get("status") or {}).get("phase") == "Lost":
        return Problem(
            "ClaimLost",
            f"PersistentVolumeClaim {name!r} lost its volume; bind it to the volume with the data",
        )
    return None


def conditions(spec: ClusterSpec, found: ClusterSeen) -> list[Condition]:
    """Return the conditions of a cluster; Ready is the summary."""
    result = [ready(spec, found), _progressing(spec, found.plan)]
    result.append(_storage_ready(spec, found))
    result += _mesh_conditions(spec, found)
    if spec.kafka_listener is not None:
        users = 0 if found.placement is None else found.placement.users
        result.append(listener_ready(spec, found.seen, users=users, waiting=found.unbalanced))
    if spec.paused or spec.policy == "Paused":
        result.append(
            Condition.true(
                "ReconciliationPaused",
                "Paused",
                f"nothing is changed; remove the annotation {w.PAUSE_ANNOTATION}, or set "
                "managementPolicy to Managed, to go on",
            )
        )
    return result


def _storage_ready(spec: ClusterSpec, found: ClusterSeen) -> Condition:
    if found.storage_problem is not None:
        return found.storage_problem.condition("StorageReady")
    if spec.storage.kafka is None:
        kind = "SharedClaim" if spec.storage.claim else "SingleNode"
        return Condition.true("StorageReady", kind)
    placement = found.placement or PlacementSeen()
    if placement.losses:
        return Problem("RecordsLost", "; ".join(placement.losses)).condition("StorageReady")
    if placement.damages:
        return Problem("LogDamaged", "; ".join(placement.damages)).condition("StorageReady")
    if placement.storage_problems:
        told = "; ".join(placement.storage_problems)
        return Problem("TopicsMisconfigured", told).condition("StorageReady")
    if not any(pod.ready for pod in found.seen.pods):
        return Condition.unknown("StorageReady", "Starting", "no pod has opened its storage yet")
    servers = ", ".join(spec.storage.kafka.servers)
    return Condition.true("StorageReady", "KafkaCluster", f"pods use the brokers of {servers}")


def ready(spec: ClusterSpec, found: ClusterSeen) -> Condition:
    """Return whether the cluster serves everything, or the first reason why not."""
    problem = found.storage_problem or found.mesh_problem
    if problem is not None:
        return problem.condition("Ready")
    placement = found.placement
    if placement is None:
        return Condition.unknown("Ready", "Starting", "the cluster is being looked at")
    missing = [
        f"{ready_pods(found.seen.pods, role)} of {spec.roles[role].replicas} {role} pods are ready"
        for role in w.ROLES
        if ready_pods(found.seen.pods, role) < spec.roles[role].replicas
    ]
    if missing:
        why = found.plan.message if found.plan.reason == "PodsStarting" else ""
        text = "; ".join([*missing, why] if why else missing)
        return Condition.false("Ready", "PodsNotReady", text)
    if placement.unled_shards:
        return Condition.false(
            "Ready",
            "CoordinatorsNotElected",
            f"{placement.unled_shards} coordinator shards are without a leader",
        )
    if placement.led < placement.partitions:
        left = placement.partitions - placement.led
        text = f"{left} of {placement.partitions} partitions have no leader"
        return Condition.false("Ready", "PartitionsNotLed", "; ".join([text, *placement.examples]))
    text = f"{placement.led} of {placement.partitions} partitions are led"
    return Condition.true("Ready", "AllLeadersServing", text)


def ready_pods(pods: Sequence[PodSeen], role: Role) -> int:
    """Return how many pods of a role are ready and stay."""
    return sum(pod.role is role and pod.ready and not pod.terminating for pod in pods)


def status(spec: ClusterSpec, found: ClusterSeen) -> KubeObject:
    """Return the status but for its conditions; null takes a field away."""
    pods = found.seen.pods
    current = [pod for pod in pods if not pod.outdated and not pod.terminating]
    whole = found.seen.settled and len(current) == len(pods) == sum(
        each.replicas for each in spec.roles.values()
    )
    result: KubeObject = {
        "observedGeneration": spec.generation,
        "image": spec.image,
        "version": _version(spec) if whole else "",
        "bootstrap": spec.bootstrap,
        "externalBootstrap": spec.external.bootstrap(spec.name) if spec.external else None,
        "kafkaBootstrap": spec.kafka_bootstrap,
        "externalKafkaBootstrap": external_kafka_bootstrap(spec),
        "placement": _placement(found.placement),
    }
    for role in w.ROLES:
        result[w.FIELDS[role]] = _role_status(spec, found.seen, role)
    return result


def _role_status(spec: ClusterSpec, seen: Seen, role: Role) -> KubeObject:
    mine = [pod for pod in seen.pods if pod.role is role]
    nodes = seen.nodes or {}
    draining = sorted(
        pod.name
        for pod in mine
        if (pod.name in nodes and nodes[pod.name].draining) or pod.drain_age_s is not None
    )
    return {
        "replicas": len(mine),
        "ready": ready_pods(mine, role),
        "updated": sum(not pod.outdated for pod in mine),
        "draining": draining,
        "selector": w.selector_text(w.selector(spec.name, role)),
    }


def _progressing(spec: ClusterSpec, step: RolloutPlan) -> Condition:
    if spec.hands_off:
        return Condition.false("Progressing", "NotManaged", "the operator changes nothing")
    return Condition("Progressing", step.progressing, step.reason, step.message)


def _mesh_conditions(spec: ClusterSpec, found: ClusterSeen) -> list[Condition]:
    if found.placement is None:
        problem = found.mesh_problem or Problem("Starting", "etcd was not asked yet")
        if problem.reason == NOT_OPENED:
            return [Condition.true("EtcdAvailable", "Reachable")]
        available = None if found.mesh_problem is None else False
        return [Condition("EtcdAvailable", available, problem.reason, problem.message)]
    placement = found.placement
    unled = placement.unled_shards
    cap, load = spec.placement.max_load_percent, placement.max_load_percent
    mean = sum(placement.loads) / len(placement.loads) if placement.loads else 0
    # One partition more than the mean is no imbalance, however few there are.
    even = not placement.loads or max(placement.loads) <= max(mean * cap / 100, mean + 1)
    return [
        Condition.true("EtcdAvailable", "Reachable"),
        Condition(
            "CoordinatorsElected",
            unled == 0,
            "AllElected" if unled == 0 else "Electing",
            "" if unled == 0 else f"{unled} shards are without a leader",
        ),
        Condition(
            "Balanced",
            even,
            "WithinCap" if even else "AboveCap",
            f"the fullest leader has {load} % of the mean",
        ),
    ]


def _placement(placement: PlacementSeen | None) -> KubeObject | None:
    if placement is None:
        return None
    return {
        "generation": placement.generation,
        "controller": placement.controller,
        "fencingToken": str(placement.token),
        "partitions": placement.partitions,
        "led": placement.led,
        "unassigned": placement.unassigned,
        "maxLoadPercent": placement.max_load_percent,
    }


def _version(spec: ClusterSpec) -> str:
    if spec.version:
        return spec.version
    tag = spec.image.split("@", 1)[0].rpartition(":")[2]
    return "" if "/" in tag else tag


def by_role(sets: Sequence[KubeObject]) -> Mapping[Role, KubeObject]:
    """Return StatefulSets by the role of their pods."""
    return {role: each for each in sets if (role := w.role_of(each)) is not None}
