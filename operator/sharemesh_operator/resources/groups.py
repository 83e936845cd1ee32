"""Compares a ShareGroup with the existing group: configs to set, conditions, status."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import sharemesh.domain.group_config.group_definitions as names
from sharemesh.domain.errors import RefusedError
from sharemesh_operator.resources.cluster_spec import is_paused
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.names import PAUSE_ANNOTATION, KubeObject

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
PAUSED = Condition.unknown(
    "Ready",
    "Paused",
    "nothing is changed and nothing is read; set managementPolicy to Managed and remove the "
    f"annotation {PAUSE_ANNOTATION} to resume",
)
_ISOLATION = {"ReadUncommitted": "read_uncommitted", "ReadCommitted": "read_committed"}
_RETRY = {
    names.RETRY_BACKOFF: ("backoffMilliseconds", 0),
    names.RETRY_BACKOFF_MAX: ("backoffMaxMilliseconds", 600_000),
}
_RETRY_PERCENT = {
    names.RETRY_BACKOFF_MULTIPLIER: ("backoffMultiplierPercent", 200),
    names.RETRY_BACKOFF_JITTER: ("backoffJitterPercent", 20),
}


@dataclass(frozen=True, slots=True)
class PartitionFound:
    """One partition of a group's topics and its leader; empty: none."""

    topic: str
    leader: str
    draining: bool = False


@dataclass(frozen=True, slots=True)
class GroupFound:
    """A group as the mesh describes it; ``state`` is empty if it never had a member."""

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


def is_group_paused(body: KubeObject) -> bool:
    """Return whether a group is neither changed nor read."""
    return body["spec"].get("managementPolicy") == "Paused" or is_paused(body)


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
    if "paused" in spec:  # else `sharemesh groups pause` decides
        found[names.PAUSED] = "true" if spec["paused"] else "false"
    if "inFlightLimitType" in spec:
        found[names.IN_FLIGHT_LIMIT_TYPE] = spec["inFlightLimitType"].lower()
    if "maxRunsPerPartition" in spec:
        found[names.PARTITION_MAX_RUNS] = str(spec["maxRunsPerPartition"])
    if "retry" in spec:
        found |= _retry_configs(spec["retry"])
    return found


def _retry_configs(retry: KubeObject) -> dict[str, str]:
    """Return the settings of delayed retry: all of them, so that what is not named is as before."""
    found = {name: str(retry.get(field, default)) for name, (field, default) in _RETRY.items()}
    found |= {
        name: str(retry.get(field, default) / 100)
        for name, (field, default) in _RETRY_PERCENT.items()
    }
    found[names.RETRY_BACKOFF_ON_TIMEOUT] = str(retry.get("onTimeout", False))
    found[names.RETRY_SCHEDULE] = ",".join(retry.get("schedule", ()))
    return {name: _spelled(name, value) for name, value in found.items()}


def _spelled(name: str, value: str) -> str:
    """Return a value as the mesh spells it; one that it will refuse stays as it is."""
    try:
        return names.GROUP_CONFIGS[name].check(value)
    except RefusedError:
        return value


def drifted(body: KubeObject, current: Mapping[str, str | None]) -> dict[str, str]:
    """Return the configs that differ from what was set for this group."""
    wanted = group_configs(body)
    return {name: value for name, value in wanted.items() if current.get(name) != value}


def id_taken(body: KubeObject, rival: str) -> Condition:
    """Return Ready of a ShareGroup for whose group an older one stands."""
    text = f"ShareGroup {rival!r} stands for group {group_id(body)!r} already; delete one of them"
    return Condition.false("Ready", "IdTaken", text)


def configs_refused(body: KubeObject, why: str) -> Condition:
    """Return Accepted of a ShareGroup whose configs the cluster does not take."""
    text = f"the cluster refuses the configs of group {group_id(body)!r}: {why}"
    return Condition.false("Accepted", "ConfigsRefused", text)


def group_conditions(found: GroupFound, refused: Condition | None) -> list[Condition]:
    """Return the conditions of a ShareGroup; ``refused`` is Accepted where its configs are not."""
    accepted = refused or Condition.true("Accepted", "ConfigsInForce")
    leaders = _leaders_assigned(found)
    if accepted.status is not True:
        return [Condition.false("Ready", accepted.reason, accepted.message), accepted, leaders]
    if leaders.status is not True:
        return [Condition.false("Ready", leaders.reason, leaders.message), accepted, leaders]
    text = f"{found.members} members, {len(found.partitions)} partitions"
    return [Condition.true("Ready", "InSync", text), accepted, leaders]


def backlog(body: KubeObject, found: GroupFound, now: str) -> KubeObject:
    """Return the backlog for the status; empty where it is not known, so that the last one stays.

    Its time is that of the last change, so that a backlog that stays costs no writes.
    """
    if found.lag < 0:
        return {}
    old = (body.get("status") or {}).get("backlog") or {}
    same = old.get("records") == found.lag
    when = old.get("observedTime") if same else now
    return {"backlog": {"records": found.lag, "observedTime": when}}


def group_status(body: KubeObject, found: GroupFound) -> KubeObject:
    """Return the status but for its conditions and the backlog."""
    leaders = Counter(each.leader for each in found.partitions if each.leader)
    led = sum(leaders.values())
    return {
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
