"""A ShareGroup against the group that there is: its configs, and what to say of it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import sharemesh.domain.group_config.group_definitions as names
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.names import KubeObject

_SECONDS = {
    names.RECORD_LOCK_DURATION: ("recordLockDurationSeconds", 30),
    names.SESSION_TIMEOUT: ("memberSessionTimeoutSeconds", 45),
    names.HEARTBEAT_INTERVAL: ("memberHeartbeatIntervalSeconds", 5),
    names.ASSIGNMENT_INTERVAL: ("assignmentIntervalSeconds", 1),
}
_NUMBERS = {
    names.DELIVERY_COUNT_LIMIT: ("maxDeliveryAttempts", 5),
    names.PARTITION_MAX_RECORD_LOCKS: ("maxRecordLocksPerPartition", 2_000),
}
_ISOLATION = {"ReadUncommitted": "read_uncommitted", "ReadCommitted": "read_committed"}


@dataclass(frozen=True, slots=True)
class PartitionFound:
    """One partition of a group's topics and who leads it; empty: nobody."""

    topic: str
    leader: str
    draining: bool = False


@dataclass(frozen=True, slots=True)
class GroupFound:
    """A group as the mesh describes it; ``state`` is empty if nobody ever joined it."""

    state: str = ""
    group_epoch: int = 0
    members: int = 0
    shard: int = 0
    coordinator: str = ""
    shard_epoch: int = 0
    partitions: tuple[PartitionFound, ...] = ()
    missing_topics: tuple[str, ...] = ()
    lag: int = -1


def group_id(body: KubeObject) -> str:
    """Return the group's id in the mesh."""
    name: str = body["spec"].get("groupId") or body["metadata"]["name"]
    return name


def group_configs(body: KubeObject) -> dict[str, str]:
    """Return the group's configs by Kafka's names, in the units of the mesh."""
    spec = body["spec"]
    found = {
        name: str(spec.get(field, default) * 1_000) for name, (field, default) in _SECONDS.items()
    }
    found |= {name: str(spec.get(field, default)) for name, (field, default) in _NUMBERS.items()}
    found[names.AUTO_OFFSET_RESET] = _reset(spec)
    found[names.ISOLATION_LEVEL] = _ISOLATION[spec.get("isolationLevel", "ReadUncommitted")]
    renew = spec.get("renewAcknowledge", "Enabled") == "Enabled"
    found[names.RENEW_ACKNOWLEDGE_ENABLE] = "true" if renew else "false"
    return found


def drifted(body: KubeObject, current: Mapping[str, str | None]) -> dict[str, str]:
    """Return the configs that differ from what was set for this group."""
    wanted = group_configs(body)
    return {name: value for name, value in wanted.items() if current.get(name) != value}


def group_conditions(found: GroupFound, problem: Condition | None) -> list[Condition]:
    """Return the conditions of a ShareGroup; ``problem`` is what its configs met."""
    accepted = problem or Condition.true("Accepted", "ConfigsInForce")
    leaders = _leaders_assigned(found)
    if accepted.status is not True:
        return [Condition.false("Ready", accepted.reason, accepted.message), accepted, leaders]
    if leaders.status is not True:
        return [Condition.false("Ready", leaders.reason, leaders.message), accepted, leaders]
    text = f"{found.members} members, {len(found.partitions)} partitions"
    return [Condition.true("Ready", "InSync", text), accepted, leaders]


def group_status(body: KubeObject, found: GroupFound) -> KubeObject:
    """Return the status but for its conditions and the backlog's time."""
    leaders = Counter(each.leader for each in found.partitions if each.leader)
    led = sum(leaders.values())
    return {
        "observedGeneration": body["metadata"].get("generation", 0),
        "groupId": group_id(body),
        "groupEpoch": found.group_epoch,
        "members": found.members,
        "coordinator": {
            "shard": found.shard,
            "pod": found.coordinator,
            "epoch": found.shard_epoch,
        },
        "partitions": {
            "total": len(found.partitions),
            "led": led,
            "draining": sum(each.draining for each in found.partitions),
            "unassigned": len(found.partitions) - led,
        },
        "leaders": [{"pod": pod, "partitions": count} for pod, count in sorted(leaders.items())],
    }


def _leaders_assigned(found: GroupFound) -> Condition:
    if found.missing_topics:
        return Condition.false(
            "LeadersAssigned",
            "TopicNotFound",
            f"there is no topic {', '.join(found.missing_topics)}; create a ShareTopic for each, "
            "or correct topics",
        )
    unled = sum(not each.leader for each in found.partitions)
    if unled:
        return Condition.false(
            "LeadersAssigned",
            "PartitionsNotLed",
            f"{unled} of {len(found.partitions)} partitions have no leader",
        )
    return Condition.true("LeadersAssigned", "AllLed")


def _reset(spec: KubeObject) -> str:
    policy = spec.get("autoOffsetReset", "Latest")
    if policy == "ByDuration":
        return f"by_duration:PT{spec['autoOffsetResetDurationSeconds']}S"
    return str(policy).lower()
