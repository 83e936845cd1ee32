"""Topics of others that are compacted while a group reads them, and its leaders change (KRL-6)."""

from tests.simulation.workloads.mixed import TOPIC, TRIMMED
from tests.simulation.workloads.special import DelayedRetryWorkload

LIMIT_TYPES = ("span", "locks")
LIMITS = ("100", "2000")
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


class CompactedWorkload(DelayedRetryWorkload):
    """Records go that are held, delayed, available, finished, or that nobody has read yet.

    What was removed need not be delivered; the rest must be, and nothing may stand still: the
    start offset passes what is gone, so that the lag is 0 in the end.
    """

    fault_kinds: tuple[str, ...] = (
        *("compacted",) * 8,
        *("kill", "kill", "drain", "client_killed", "leaders_moved", "network_slow"),
    )
    fault_gap_s = (0.2, 2.5)
    finish_s = 200.0
    producer_gap_s = (0.1, 1.0)
    modes = ("delaying", "partial", "late", "record_limit")

    def was_compacted(self, partition: str, offset: int) -> bool:
        topic, _, number = partition.rpartition("/")
        return self.world.kafka.was_compacted(topic, int(number), offset)

    async def _prepare(self) -> None:
        await super()._prepare()
        for topic in (TOPIC, TRIMMED):
            self.world.kafka.cluster.configure(topic, {"cleanup.policy": "compact"})
        settings = {
            "share.in.flight.limit.type": self.rng.choice(LIMIT_TYPES),
            "share.partition.max.record.locks": self.rng.choice(LIMITS),
            "share.isolation.level": self.rng.choice(ISOLATION_LEVELS),
        }
        for group in self.groups:
            await self.admin.alter_group_configs(group, settings)
        self.world.tell(f"settings {settings}")
