"""The workloads by name."""

from tests.simulation.workloads.compacted import CompactedWorkload
from tests.simulation.workloads.detached import DetachedWorkload
from tests.simulation.workloads.lossy import LossyWorkload
from tests.simulation.workloads.mixed import MixedWorkload, ShortWorkload
from tests.simulation.workloads.paused import PausedWorkload
from tests.simulation.workloads.revoked import RevokedWorkload
from tests.simulation.workloads.special import (
    CrashingWorkload,
    CrowdedWorkload,
    DelayedRetryWorkload,
    DelayedWorkload,
    HandedOverWorkload,
    HeldWorkload,
    LatestWorkload,
    LeaderlessWorkload,
    PrunedWorkload,
    RefusedWorkload,
    StalledWorkload,
    StoredWorkload,
    TrimmedWorkload,
    UnreadableWorkload,
    UsurpedWorkload,
)
from tests.simulation.workloads.tenants import TenantsWorkload

WORKLOADS: dict[str, type[MixedWorkload]] = {
    "mixed": MixedWorkload,
    "short": ShortWorkload,
    "crowded": CrowdedWorkload,
    "stalled": StalledWorkload,
    "crashing": CrashingWorkload,
    "usurped": UsurpedWorkload,
    "trimmed": TrimmedWorkload,
    "refused": RefusedWorkload,
    "leaderless": LeaderlessWorkload,
    "delayed": DelayedWorkload,
    "delayed_retry": DelayedRetryWorkload,
    "stored": StoredWorkload,
    "held": HeldWorkload,
    "paused": PausedWorkload,
    "handed_over": HandedOverWorkload,
    "pruned": PrunedWorkload,
    "latest": LatestWorkload,
    "lossy": LossyWorkload,
    "compacted": CompactedWorkload,
    "detached": DetachedWorkload,
    "unreadable": UnreadableWorkload,
    "revoked": RevokedWorkload,
    "tenants": TenantsWorkload,
}
ON_KAFKA_ONLY = ("compacted", "detached", "lossy")
