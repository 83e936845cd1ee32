"""The cluster's own topics: made once, checked at every start (KTP-13 to KTP-16)."""

import logging
import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import TypeVar

from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    NOT_HEARD_OF,
    CoordinatorTopic,
    CoordinatorTopicError,
    TopicsTakenError,
    coordinator_topic_problems,
    create_coordinator_topics,
    take_ownership,
)
from sharemesh.backends.kafka.shard_logs.owner_record import TopicOwner
from sharemesh.cluster.store.records import ClusterRecord, RecordFormatError
from sharemesh.cluster.store.storage_record import (
    StorageRecord,
    has_led_shards,
    storage_owner,
    store_storage,
    stored_storage,
)
from sharemesh.domain.ids import format_topic_id
from sharemesh.ports.brokers import (
    BrokerRefusedError,
    Brokers,
    BrokerUnreachableError,
    ClusterMetadata,
    TopicMetadata,
    UnsupportedRequestError,
)
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.coordination import Coordination
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings

REACH_TIMEOUT_MS = 15_000
RETRY_MS = 100

INVALID_REPLICATION_FACTOR = 38
TOPIC_AUTHORIZATION_FAILED = 29
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
SASL_AUTHENTICATION_FAILED = 58
_LOGIN_REFUSED = frozenset(
    {UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED}
)
_NO_RETRY = frozenset({TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED})
_PASSES = NOT_HEARD_OF | {2, 7, 13, 19, 20, 41, 56, 74, 75, 78, 89}
"""CORRUPT_MESSAGE, REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_ENOUGH_REPLICAS,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, NOT_CONTROLLER, KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH,
UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE, THROTTLING_QUOTA_EXCEEDED, too: a later try may go
well."""

Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)


class OwnTopics:
    """What a start does with the topics of state log and group log."""

    def __init__(
        self,
        brokers: Brokers,
        coordination: Coordination,
        settings: ServeSettings,
        clock: Clock,
        rng: Random,
        host: str = "",
    ) -> None:
        """``host``: where this process runs, for people; nothing: what the machine calls itself."""
        self._brokers = brokers
        self._coordination = coordination
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._host = host or platform.node()
        self._servers = ",".join(settings.kafka_bootstrap_servers)

    async def ready(self, cluster: ClusterRecord) -> StorageRecord:
        """Return the record of the storage; topics and record are made if there is none.

        Raises:
            StartError: OTHER_CLUSTER, or one of STORAGE, in one sentence. A first start that
                ends with STORAGE_TAKEN has written no owner record that counts.
            CoordinationError: The coordination store does not answer.
        """
        needs = self._needs(cluster)
        names = tuple(name for name, _ in needs.values())
        metadata = await self._metadata(names)
        stored = await self._stored()
        if stored is None:
            stored = await self._created(cluster, needs, metadata)
        self._check_record(stored, cluster, metadata.cluster_id)
        recorded = (stored.state_topic_id, stored.group_topic_id)
        for topic, topic_id in zip(await self._found(names), recorded, strict=True):
            if topic.topic_id != topic_id:
                raise StartError(
                    ExitCode.OTHER_CLUSTER,
                    f"topic {topic.topic} has another id ({format_topic_id(topic.topic_id)}) than "
                    f"when the cluster was created ({format_topic_id(topic_id)}): it was deleted "
                    "and made again, and the logs of this cluster with it; begin with another "
                    "cluster_id",
                )
            await self._check(topic)
        return stored

    def _needs(self, cluster: ClusterRecord) -> dict[str, tuple[str, int]]:
        """Return name and number of partitions of both topics, by the kind of shard."""
        prefix = self._settings.own_topic_prefix
        return {
            str(ShardKind.STATE): (f"{prefix}state", cluster.state_shards),
            str(ShardKind.GROUP): (f"{prefix}group", cluster.group_shards),
        }

    async def _stored(self) -> StorageRecord | None:
        try:
            return await stored_storage(self._coordination, self._settings.cluster_id)
        except RecordFormatError as error:
            raise StartError(
                ExitCode.OTHER_CLUSTER,
                f"the storage of cluster {self._settings.cluster_id!r} cannot be read: {error}",
            ) from error

    def _check_record(
        self, stored: StorageRecord, cluster: ClusterRecord, kafka_cluster_id: str
    ) -> None:
        name = self._settings.cluster_id
        if stored.kafka_cluster_id != kafka_cluster_id:
            raise StartError(
                ExitCode.OTHER_CLUSTER,
                f"{self._servers} is Kafka cluster {kafka_cluster_id!r}, and the logs of "
                f"{name!r} are in {stored.kafka_cluster_id!r}; correct kafka_bootstrap_servers",
            )
        if stored.topic_prefix != self._settings.own_topic_prefix:
            raise StartError(
                ExitCode.OTHER_CLUSTER,
                f"the own topics of {name!r} begin with {stored.topic_prefix!r}, not with "
                f"{self._settings.own_topic_prefix!r}; set kafka_topic_prefix back",
            )
        counts = (cluster.state_shards, cluster.group_shards)
        if (stored.state_shards, stored.group_shards) != counts:
            raise StartError(
                ExitCode.OTHER_CLUSTER,
                f"the own topics of {name!r} were made for {stored.state_shards} state shards and "
                f"{stored.group_shards} group shards, not {counts[0]} and {counts[1]}; shard "
                "counts are fixed at creation: set them back",
            )

    async def _created(
        self,
        cluster: ClusterRecord,
        needs: dict[str, tuple[str, int]],
        metadata: ClusterMetadata,
    ) -> StorageRecord:
        """Make the topics and the record; of several processes that do, one wins (KTP-14)."""
        if await has_led_shards(self._coordination, self._settings.cluster_id):
            stored = await self._stored()
            if stored is not None:
                return stored  # by another process, which leads shards already
            raise StartError(
                ExitCode.OTHER_CLUSTER,
                f"cluster {self._settings.cluster_id!r} keeps its logs in a data directory, from "
                "which there is no move to Kafka; set storage to embedded, or another cluster_id",
            )
        names = tuple(name for name, _ in needs.values())
        try:
            made = await self._create(needs, metadata)
            for topic in await self._found(names):
                await self._check(topic)
            await self._own(tuple(made.values()))
        except CoordinatorTopicError as error:
            stored = await self._stored()
            if stored is not None:
                return stored  # another process made them, and wrote to them
            taken = isinstance(error, TopicsTakenError)
            code = ExitCode.STORAGE_TAKEN if taken else ExitCode.STORAGE_UNREACHABLE
            raise StartError(code, str(error)) from error
        record = StorageRecord(
            kafka_cluster_id=metadata.cluster_id,
            topic_prefix=self._settings.own_topic_prefix,
            state_topic_id=made[str(ShardKind.STATE)].topic_id,
            group_topic_id=made[str(ShardKind.GROUP)].topic_id,
            state_shards=cluster.state_shards,
            group_shards=cluster.group_shards,
        )
        if await store_storage(self._coordination, self._settings.cluster_id, record):
            _log.info("storage: topics %s and %s are the logs", *names)
            return record
        stored = await self._stored()
        assert stored is not None
        return stored

    async def _create(
        self, needs: dict[str, tuple[str, int]], metadata: ClusterMetadata
    ) -> Mapping[str, CoordinatorTopic]:
        replicas, min_insync = self._settings.own_topic_replicas
        brokers = len(metadata.brokers)
        if brokers < replicas:
            raise self._too_few(replicas, brokers)
        prefix = self._settings.own_topic_prefix
        what = f"topics {prefix}… cannot be created"
        try:
            return await self._asked(
                lambda: create_coordinator_topics(
                    self._brokers,
                    self._clock,
                    needs,
                    replication_factor=replicas,
                    min_insync_replicas=min_insync,
                    servers=self._servers,
                ),
                what,
                "let the user of this process create topics with that prefix",
            )
        except BrokerRefusedError as error:
            if error.code == INVALID_REPLICATION_FACTOR:
                raise self._too_few(replicas, brokers) from error
            raise _not_done(what, error) from error
        except UnsupportedRequestError as error:
            raise _not_done(what, error) from error

    async def _own(self, topics: Sequence[CoordinatorTopic]) -> None:
        """Return if the topics are those of this coordination store (KTP-20)."""
        cluster_id = self._settings.cluster_id
        owner_id = await storage_owner(self._coordination, cluster_id, self._rng)
        owner = TopicOwner(owner_id, cluster_id, self._host)
        what = f"the owner record of topic {topics[0].topic} cannot be written or read"
        try:
            await self._asked(
                lambda: take_ownership(
                    self._brokers, self._clock, topics, owner, servers=self._servers
                ),
                what,
                "let the user of this process write and read it",
            )
        except (BrokerRefusedError, UnsupportedRequestError) as error:
            raise _not_done(what, error) from error

    def _too_few(self, replicas: int, brokers: int) -> StartError:
        return StartError(
            ExitCode.STORAGE_TOO_FEW_REPLICAS,
            f"the Kafka cluster at {self._servers} has {brokers} "
            f"{'broker' if brokers == 1 else 'brokers'}, and topic "
            f"{self._settings.own_topic_prefix}state needs {replicas} copies; start more brokers, "
            "or set kafka_single_replica to true for a trial on one",
        )

    async def _metadata(self, names: Sequence[str]) -> ClusterMetadata:
        async def ask() -> ClusterMetadata:
            found = await self._brokers.metadata(names)
            if not found.brokers:
                raise BrokerUnreachableError("it names no broker: none has been let in yet")
            return found

        what = f"the Kafka cluster at {self._servers} cannot be asked"
        try:
            return await self._asked(ask, what, "let the user of this process describe its topics")
        except (BrokerRefusedError, UnsupportedRequestError) as error:
            raise _not_done(what, error) from error

    async def _found(self, names: Sequence[str]) -> list[TopicMetadata]:
        """Return both topics once a broker shows them; brokers learn of new ones one by one."""
        deadline_ms = self._clock.now_ms() + REACH_TIMEOUT_MS
        while True:
            metadata = await self._metadata(names)
            shown = {each.topic: each for each in metadata.topics if _is_whole(each)}
            missing = [name for name in names if name not in shown]
            if not missing:
                return [shown[name] for name in names]
            _check_rights(metadata)
            if self._clock.now_ms() >= deadline_ms:
                break
            await self._clock.sleep_ms(RETRY_MS)
        raise StartError(
            ExitCode.STORAGE_MISCONFIGURED,
            f"topic {missing[0]} is missing, and the logs of this cluster with it: restore it, or "
            "begin with another cluster_id; it is never made again",
        )

    async def _check(self, topic: TopicMetadata) -> None:
        name = topic.topic
        try:
            configs = await self._asked(
                lambda: self._brokers.topic_configs(name),
                f"the settings of topic {name} cannot be read",
                "let the user of this process describe its configs",
            )
        except (UnsupportedRequestError, BrokerRefusedError) as error:
            _log.warning("the settings of topic %s are not checked: %s", name, error)
            return
        problems = coordinator_topic_problems(
            name,
            configs,
            min(len(each.replicas) for each in topic.partitions),
            servers=self._servers,
            single_replica=self._settings.kafka_single_replica,
        )
        if problems:
            raise StartError(ExitCode.STORAGE_MISCONFIGURED, "; ".join(problems))

    async def _asked(self, ask: Callable[[], Awaitable[Answer]], what: str, right: str) -> Answer:
        """Return an answer; requests that find nobody are repeated for a while.

        So are those that are refused for what passes, as by a broker which has not heard of a new
        topic yet.

        Raises:
            BrokerRefusedError: It was refused for another reason than a missing right.
            UnsupportedRequestError: The brokers do not speak it.
            StartError: STORAGE_UNREACHABLE or STORAGE_LOGIN_REFUSED.
        """
        deadline_ms = self._clock.now_ms() + REACH_TIMEOUT_MS
        while True:
            try:
                return await ask()
            except BrokerRefusedError as error:
                if error.code in _LOGIN_REFUSED:
                    raise StartError(ExitCode.STORAGE_LOGIN_REFUSED, f"{what}: {error}") from error
                if error.code in _NO_RETRY:
                    raise StartError(
                        ExitCode.STORAGE_LOGIN_REFUSED, f"{what}: {error}; {right}"
                    ) from error
                if error.code not in _PASSES or self._clock.now_ms() >= deadline_ms:
                    raise
            except BrokerUnreachableError as error:
                if self._clock.now_ms() >= deadline_ms:
                    raise StartError(
                        ExitCode.STORAGE_UNREACHABLE,
                        f"{what}: {error}; start the brokers, or correct what their listeners "
                        "advertise",
                    ) from error
            await self._clock.sleep_ms(RETRY_MS)


def _not_done(what: str, error: BrokerRefusedError | UnsupportedRequestError) -> StartError:
    """Return why a start ends that got no further answer: brokers too old, or a refusal."""
    if isinstance(error, UnsupportedRequestError):
        return StartError(ExitCode.STORAGE_MISCONFIGURED, f"{what}: {error}")
    code = ExitCode.STORAGE_MISCONFIGURED
    if error.code in _PASSES:
        code = ExitCode.STORAGE_UNREACHABLE
    return StartError(code, f"{what}: {error}; the brokers' own logs say what keeps them from it")


def _is_whole(topic: TopicMetadata) -> bool:
    return not topic.error and bool(topic.partitions)


def _check_rights(metadata: ClusterMetadata) -> None:
    for each in metadata.topics:
        if each.error == TOPIC_AUTHORIZATION_FAILED:
            raise StartError(
                ExitCode.STORAGE_LOGIN_REFUSED,
                f"topic {each.topic} may not be described by the user of this process; allow "
                "DESCRIBE on it",
            )
