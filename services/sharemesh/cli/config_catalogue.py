"""Every configuration name of spec section 25 that this version knows, for ``configs explain``."""

from dataclasses import dataclass

from sharemesh.client.config import CONSUMER_SETTINGS, PRODUCER_SETTINGS, Setting


@dataclass(frozen=True, slots=True)
class Entry:
    """One name: what it belongs to, default, allowed values, and what it does."""

    name: str
    of: str
    default: str
    allowed: str
    what: str


_GROUP = (
    ("share.session.timeout.ms", "cluster's", "within the cluster's bounds",
     "a member that sends no heartbeat for so long is removed"),
    ("share.heartbeat.interval.ms", "cluster's", "within the cluster's bounds",
     "time between heartbeats of a member"),
    ("share.record.lock.duration.ms", "cluster's", "1000 or more, within the cluster's bounds",
     "how long an acquired record is locked before it is available again"),
    ("share.delivery.count.limit", "cluster's", "2 or more, within the cluster's bounds",
     "a record that was delivered so often and not accepted is archived"),
    ("share.partition.max.record.locks", "cluster's", "100 or more, within the cluster's bounds",
     "records that may be in flight in one partition"),
    ("share.auto.offset.reset", "latest", "latest, earliest, by_duration:PnDTnHnMn.nS",
     "where a group that is new in a partition starts"),
    ("share.isolation.level", "read_uncommitted", "read_uncommitted, read_committed",
     "whether records of open and aborted transactions are delivered"),
    ("share.renew.acknowledge.enable", "true", "true, false",
     "whether consumers may renew acquisition locks"),
    ("share.assignment.interval.ms", "cluster's", "within the cluster's bounds",
     "least time between two assignments of a group"),
)  # fmt: skip

_CLUSTER = (
    ("group.share.session.timeout.ms", "45000", "1 or more", "default of the groups"),
    ("group.share.min.session.timeout.ms", "45000", "1 or more", "least value of a group"),
    ("group.share.max.session.timeout.ms", "60000", "1 or more", "largest value of a group"),
    ("group.share.heartbeat.interval.ms", "5000", "1 or more", "default of the groups"),
    ("group.share.min.heartbeat.interval.ms", "5000", "1 or more", "least value of a group"),
    ("group.share.max.heartbeat.interval.ms", "15000", "1 or more", "largest value of a group"),
    ("group.share.max.size", "200", "1 to 1000", "members of a group"),
    ("group.share.max.share.sessions", "2000", "1 or more, at least group.share.max.size",
     "share sessions of one leader"),
    ("group.share.partition.max.record.locks", "2000", "100 to 10000", "default of the groups"),
    ("group.share.min.partition.max.record.locks", "100", "100 to 2000", "least of a group"),
    ("group.share.max.partition.max.record.locks", "4000", "2000 to 10000", "largest of a group"),
    ("group.share.delivery.count.limit", "5", "2 to 10", "default of the groups"),
    ("group.share.min.delivery.count.limit", "2", "2 to 5", "least value of a group"),
    ("group.share.max.delivery.count.limit", "10", "5 to 25", "largest value of a group"),
    ("group.share.record.lock.duration.ms", "30000", "1000 to 3600000", "default of the groups"),
    ("group.share.min.record.lock.duration.ms", "15000", "1000 to 30000", "least of a group"),
    ("group.share.max.record.lock.duration.ms", "60000", "30000 to 3600000",
     "largest value of a group"),
    ("group.share.assignors", "simple", "simple", "how partitions are given to members"),
    ("group.share.assignment.interval.ms", "1000", "0 or more", "default of the groups"),
    ("group.share.min.assignment.interval.ms", "0", "0 or more", "least value of a group"),
    ("group.share.max.assignment.interval.ms", "15000", "0 or more", "largest value of a group"),
    ("group.share.initialize.retry.interval.ms", "30000", "1 or more",
     "wait before an unfinished initialization of a share partition is repeated"),
    ("share.coordinator.snapshot.update.records.per.snapshot", "500", "0 to 500",
     "updates of a share partition's state between two snapshots"),
    ("share.coordinator.write.timeout.ms", "5000", "1 or more",
     "time within which a state write must be on disk"),
    ("share.coordinator.state.topic.prune.interval.ms", "300000", "1 or more",
     "time between two prunings of the state log"),
    ("share.coordinator.cold.partition.snapshot.interval.ms", "300000", "1 or more",
     "age at which the snapshot of a share partition is written again"),
    ("share.coordinator.state.topic.segment.bytes", "104857600", "1 or more",
     "bytes after which a segment of the state log is closed; at least 65536 count"),
    ("state.log.spark.grace.ms", "604800000", "1 or more",
     "time without a new generation after which pruning no longer waits for one"),
)  # fmt: skip


def _client(settings: tuple[Setting, ...], of: str) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            each.name,
            of,
            "none" if each.default in (None, "") else str(each.default),
            ", ".join(each.choices) or _bounds(each),
            each.what,
        )
        for each in settings
    )


def _bounds(setting: Setting) -> str:
    if setting.least is None:
        return "any"
    return (
        f"{setting.least} or more" if setting.most is None else f"{setting.least} to {setting.most}"
    )


CATALOGUE = (
    *(Entry(name, "group", default, allowed, what) for name, default, allowed, what in _GROUP),
    *(Entry(name, "cluster", default, allowed, what) for name, default, allowed, what in _CLUSTER),
    *_client(CONSUMER_SETTINGS, "share consumer"),
    *_client(PRODUCER_SETTINGS, "producer"),
)
"""By kind: group, cluster, share consumer, producer."""
