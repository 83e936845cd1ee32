"""The cluster's keys, read into tables; one step a key, no waiting."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from sharemesh.cluster.store import records
from sharemesh.cluster.store.acl_rules import AclRule, decode_rule, known_type
from sharemesh.cluster.store.keys import Keys, parse_partition_path, parse_quota_path
from sharemesh.cluster.store.quota_records import decode_quotas
from sharemesh.cluster.store.records import (
    Claim,
    ClusterRecord,
    Deletion,
    PartitionAssignment,
    RecordFormatError,
    Trouble,
)
from sharemesh.cluster.store.seen_records import decode_damage, decode_seen
from sharemesh.cluster.store.user_records import Credentials, decode_user
from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import GroupId, NodeId, TopicId, TopicPartition, parse_topic_id
from sharemesh.domain.quota.bounds import QuotaBounds
from sharemesh.domain.stamped_log.seen import lost_words
from sharemesh.ports.cluster import NodeInfo, TopicInfo
from sharemesh.ports.coordination import KeyValue

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Stored(Generic[Value]):
    """A value with what guards need of its key."""

    value: Value
    create_revision: int
    mod_revision: int
    lease_id: int


@dataclass(slots=True)
class StateChanges:
    """What changed since subscribers were last notified; ``everything`` after a new snapshot."""

    everything: bool = False
    members: bool = False
    topics: bool = False
    configs: bool = False
    acls: bool = False
    quotas: bool = False
    users: bool = False
    elections: set[str] = field(default_factory=set)
    partitions: set[TopicPartition] = field(default_factory=set)
    deletions: bool = False
    wishes: bool = False


class ClusterState:
    """What is known of one cluster at one revision."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self.revision = 0
        self.cluster: ClusterRecord | None = None
        self.members: dict[NodeId, Stored[NodeInfo]] = {}
        self.candidates: dict[str, dict[str, Stored[NodeId]]] = {}
        self.epochs: dict[str, Stored[int]] = {}
        self.topics: dict[str, Stored[TopicInfo]] = {}
        self.topics_by_id: dict[TopicId, Stored[TopicInfo]] = {}
        self.assignments: dict[TopicPartition, Stored[PartitionAssignment]] = {}
        self.claims: dict[TopicPartition, Stored[Claim]] = {}
        self.deletions: dict[TopicId, Stored[Deletion]] = {}
        self.troubles: dict[TopicPartition, Stored[Trouble]] = {}
        self.storage_problems: dict[str, str] = {}  # by topic of the cluster's own
        self.losses: dict[str, str] = {}  # by shard, in words
        self.damages: dict[str, str] = {}  # by shard, in words
        self.wanted: dict[str, int] = {}  # and when: the revision
        self.attached: dict[str, int] = {}
        self.cluster_configs: dict[str, str] = {}
        self.group_configs: dict[GroupId, dict[str, str]] = {}
        self.share_version: int | None = None
        self.acls: dict[str, AclRule] = {}
        self.quotas = QuotaBounds()
        self.users: dict[str, Credentials] = {}
        self.unreadable: dict[str, str] = {}
        self._rooms: dict[str, Callable[[str, KeyValue | None, StateChanges], None]] = {
            "cluster": self._cluster,
            "members": self._member,
            "election": self._candidate,
            "epoch": self._epoch,
            "topics": self._topic,
            "assign": self._assignment,
            "lead": self._claim,
            "trouble": self._trouble,
            "deleted": self._deletion,
            "seen": self._seen,
            "storage-problems": self._storage_problem,
            "damaged": self._damage,
            "wanted": partial(self._wish, self.wanted),
            "attached": partial(self._wish, self.attached),
            "configs": self._configs,
            "features": self._feature,
            "acls": self._acl,
            "typed-acls": self._typed_acl,
            "quotas": self._quota,
            "users": self._user,
        }

    def apply(self, key: str, current: KeyValue | None, changes: StateChanges) -> None:
        """Take one key into account; what cannot be read is noted, and the old value stays."""
        room, _, rest = key[len(self._keys.prefix) :].partition("/")
        handler = self._rooms.get(room)
        if handler is None:
            return  # a room of a newer build
        self.unreadable.pop(key, None)
        try:
            handler(rest, current, changes)
        except RecordFormatError as error:
            self.unreadable[key] = f"{key}: {error}"

    def leader_of(self, election: str) -> Stored[NodeId] | None:
        """Return the oldest candidate of an election."""
        candidates = self.candidates.get(election)
        if not candidates:
            return None
        return min(candidates.values(), key=lambda candidate: candidate.create_revision)

    def partition_exists(self, partition: TopicPartition) -> bool:
        """Return whether the topic exists and has this partition."""
        topic = self.topics_by_id.get(partition.topic_id)
        return topic is not None and partition.partition < topic.value.partitions

    def _cluster(self, _: str, current: KeyValue | None, changes: StateChanges) -> None:
        self.cluster = records.decode_cluster(current.value) if current else None
        changes.everything = True

    def _member(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        node_id = NodeId(rest)
        changes.members = True
        _keep(self.members, node_id, current, partial(records.decode_member, node_id))

    def _candidate(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        election, _, candidate = rest.partition("/")
        changes.elections.add(election)
        candidates = self.candidates.setdefault(election, {})
        _keep(candidates, candidate, current, records.decode_candidate)

    def _epoch(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        changes.elections.add(rest)
        _keep(self.epochs, rest, current, records.decode_number)

    def _topic(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        changes.topics = True
        if current is not None:
            topic = _stored(records.decode_topic(rest, current.value), current)
        old = self.topics.pop(rest, None)
        if old is not None:
            self.topics_by_id.pop(old.value.topic_id, None)
        if current is not None:
            self.topics[rest] = topic
            self.topics_by_id[topic.value.topic_id] = topic

    def _assignment(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        partition = _partition(rest)
        changes.partitions.add(partition)
        _keep(self.assignments, partition, current, records.decode_assignment)

    def _claim(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        partition = _partition(rest)
        changes.partitions.add(partition)
        _keep(self.claims, partition, current, records.decode_claim)

    def _trouble(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        partition = _partition(rest)
        changes.partitions.add(partition)
        _keep(self.troubles, partition, current, records.decode_trouble)

    def _deletion(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        try:
            topic_id = parse_topic_id(rest)
        except RefusedError as error:
            raise RecordFormatError(str(error)) from None
        changes.deletions = True
        _keep(self.deletions, topic_id, current, partial(records.decode_deletion, topic_id))

    def _seen(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        loss = None if current is None else decode_seen(current.value).loss
        words = "" if loss is None else lost_words(rest, loss)
        if words == self.losses.get(rest, ""):
            return  # that more was confirmed is no news to anybody
        changes.elections.add(rest)
        if words:
            self.losses[rest] = words
        else:
            del self.losses[rest]

    def _damage(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        changes.elections.add(rest)  # who leads it by now forgets it
        if current is None:
            self.damages.pop(rest, None)
        else:
            self.damages[rest] = decode_damage(current.value)

    def _storage_problem(self, rest: str, current: KeyValue | None, _: StateChanges) -> None:
        if current is None:
            self.storage_problems.pop(rest, None)
        else:
            self.storage_problems[rest] = records.text(records.decode(current.value), "why")

    def _wish(
        self, table: dict[str, int], rest: str, current: KeyValue | None, changes: StateChanges
    ) -> None:
        changes.wishes = True
        if current is None:
            table.pop(rest, None)
        else:
            table[rest] = current.mod_revision

    def _configs(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        kind, _, name = rest.partition("/")
        changes.configs = True
        entries = records.decode_configs(current.value) if current else None
        if kind == "cluster":
            self.cluster_configs = entries or {}
        elif kind == "group" and entries is None:
            self.group_configs.pop(GroupId(name), None)
        elif kind == "group" and entries is not None:
            self.group_configs[GroupId(name)] = entries

    def _feature(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        if rest == "share_version":
            self.share_version = records.decode_number(current.value) if current else None
            changes.configs = True

    def _acl(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        changes.acls = True
        self.acls.pop(rest, None)
        if current is not None:
            self.acls[rest] = decode_rule(current.value)

    def _typed_acl(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        if known_type(rest.partition("/")[0]):
            self._acl(rest, current, changes)  # what is of another type, nobody asks here

    def _quota(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        entity = parse_quota_path(rest)
        if entity is None:
            return
        changes.quotas = True
        self.quotas.put(entity, {})
        if current is not None:
            self.quotas.put(entity, decode_quotas(entity, current.value).known)

    def _user(self, rest: str, current: KeyValue | None, changes: StateChanges) -> None:
        changes.users = True
        self.users.pop(rest, None)
        if current is not None:
            self.users[rest] = decode_user(current.value).known


def _stored(value: Value, key_value: KeyValue) -> Stored[Value]:
    return Stored(value, key_value.create_revision, key_value.mod_revision, key_value.lease_id)


def _keep(
    table: dict[Key, Stored[Value]],
    key: Key,
    current: KeyValue | None,
    decode: Callable[[bytes], Value],
) -> None:
    """Take the current value of a key into its table; None: it was deleted."""
    if current is None:
        table.pop(key, None)
    else:
        table[key] = _stored(decode(current.value), current)


def _partition(path: str) -> TopicPartition:
    partition = parse_partition_path(path)
    if partition is None:
        raise RecordFormatError(f"{path!r} is not <topic id>/<partition>")
    return partition
