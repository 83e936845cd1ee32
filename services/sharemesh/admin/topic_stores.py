"""Where topics are kept: in the coordination store, or in a Kafka cluster (KTP-11)."""

from collections.abc import Awaitable, Mapping
from random import Random
from typing import Protocol, TypeVar

from sharemesh.cluster.store import topics
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.topics import TOPIC_CONFIGS, check_topic_name
from sharemesh.ports.broker_topics import BrokerTopics
from sharemesh.ports.brokers import (
    BrokerRefusedError,
    BrokerUnreachableError,
    NewBrokerTopic,
    TopicMetadata,
    UnsupportedRequestError,
)
from sharemesh.ports.cluster import ClusterView, TopicInfo
from sharemesh.ports.coordination import Coordination

TIMEOUT_MS = 10_000
MIRRORED_MS = 5_000
"""How long a change in the Kafka cluster may take until the controller has seen it."""

DEFAULT_REPLICAS = -1
"""As many copies as the Kafka cluster gives a topic by itself."""

Answer = TypeVar("Answer")


class TopicStore(Protocol):
    """Changes of topics; each raises RefusedError, or CoordinationError for an unknown outcome."""

    async def create(
        self, name: str, partitions: int, configs: Mapping[str, str], *, validate_only: bool
    ) -> TopicInfo:
        """Create a topic and return it."""
        ...

    async def grow(self, name: str, total: int, *, validate_only: bool) -> TopicInfo:
        """Raise the number of its partitions."""
        ...

    async def delete(self, name: str) -> TopicInfo:
        """Delete a topic with its records and return what it was."""
        ...

    async def attach(self, name: str) -> TopicInfo:
        """Know a topic of the Kafka cluster from now on, and return it."""
        ...

    async def detach(self, name: str) -> TopicInfo:
        """Forget a topic of the Kafka cluster, in which nothing changes."""
        ...

    async def configs(self, topic: TopicInfo) -> Mapping[str, str]:
        """Return settings that differ from the defaults."""
        ...

    async def alter_configs(
        self, name: str, changes: Mapping[str, str | None], *, validate_only: bool
    ) -> None:
        """Change settings; None: back to the default."""
        ...


class StoredTopics:
    """Topics that are created here (fills ``TopicStore``)."""

    def __init__(self, coordination: Coordination, view: ClusterView, rng: Random) -> None:
        self._coordination = coordination
        self._view = view
        self._rng = rng

    async def create(
        self, name: str, partitions: int, configs: Mapping[str, str], *, validate_only: bool
    ) -> TopicInfo:
        """Create a topic and return it."""
        return await topics.create_topic(
            self._coordination,
            self._view,
            name,
            partitions,
            configs,
            rng=self._rng,
            validate_only=validate_only,
        )

    async def grow(self, name: str, total: int, *, validate_only: bool) -> TopicInfo:
        """Raise the number of its partitions."""
        return await topics.add_partitions(
            self._coordination, self._view, name, total, validate_only=validate_only
        )

    async def delete(self, name: str) -> TopicInfo:
        """Delete a topic with its records and return what it was."""
        return await topics.delete_topic(self._coordination, self._view, name)

    async def attach(self, name: str) -> TopicInfo:
        """Refuse: there is no Kafka cluster."""
        raise _created_here(name)

    async def detach(self, name: str) -> TopicInfo:
        """Refuse: there is no Kafka cluster."""
        raise _created_here(name)

    async def configs(self, topic: TopicInfo) -> Mapping[str, str]:
        """Return settings that differ from the defaults."""
        return topic.configs

    async def alter_configs(
        self, name: str, changes: Mapping[str, str | None], *, validate_only: bool
    ) -> None:
        """Change settings; None: back to the default."""
        await topics.alter_topic_configs(
            self._coordination, self._view, name, changes, validate_only=validate_only
        )


class KafkaTopicStore:
    """Topics of a Kafka cluster (fills ``TopicStore``): passed to it only if that is allowed."""

    def __init__(
        self, coordination: Coordination, view: ClusterView, broker_topics: BrokerTopics
    ) -> None:
        self._coordination = coordination
        self._view = view
        self._topics = broker_topics
        self._brokers = broker_topics.brokers

    async def create(
        self, name: str, partitions: int, configs: Mapping[str, str], *, validate_only: bool
    ) -> TopicInfo:
        """Create a topic, or adopt the one that exists: it is attached, and nothing is altered."""
        self._check_name(name)
        shown = await self._shown(name)
        if shown is not None:
            if self._view.topic_named(name) is None and not validate_only:
                await self.attach(name)
            raise RefusedError(
                ErrorCode.TOPIC_ALREADY_EXISTS,
                f"topic {name!r} exists in the Kafka cluster, with {len(shown.partitions)} "
                "partitions; it is attached as it is",
            )
        self._check_managed(name, "created")
        if validate_only:
            raise _not_asked()
        new = NewBrokerTopic(name, partitions, DEFAULT_REPLICAS, configs)
        await _passed(self._brokers.create_topic(new, timeout_ms=TIMEOUT_MS))
        return await self._attach(name)  # not every broker has heard of it yet

    async def grow(self, name: str, total: int, *, validate_only: bool) -> TopicInfo:
        """Raise the number of its partitions, and wait until the controller has seen it."""
        self._check_managed(name, "grown")
        topic = self._known(name)
        if validate_only:
            raise _not_asked()
        await _passed(self._brokers.create_partitions(name, total, timeout_ms=TIMEOUT_MS))
        await self._ask_again(name)
        return TopicInfo(name, topic.topic_id, total, {})

    async def delete(self, name: str) -> TopicInfo:
        """Delete a topic in the Kafka cluster, and its record."""
        self._check_managed(name, "deleted")
        topic = self._known(name)
        await _passed(self._brokers.delete_topic(name, timeout_ms=TIMEOUT_MS))
        await topics.detach_topic(self._coordination, self._view, name, kept=False)
        return topic

    async def attach(self, name: str) -> TopicInfo:
        """Write the name down for the controller and wait until it has attached the topic."""
        self._check_name(name)
        if await self._shown(name) is None:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"the Kafka cluster shows no topic {name!r}; correct the name, or create it there",
            )
        return await self._attach(name)

    async def _attach(self, name: str) -> TopicInfo:
        await topics.attach_topic(self._coordination, self._view, name)
        await self._view.wait_for(
            lambda: self._view.topic_named(name) is not None, timeout_ms=MIRRORED_MS
        )
        found = self._view.topic_named(name)
        if found is None:
            raise RefusedError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"topic {name!r} is not attached yet: the controller has not seen it in the Kafka "
                "cluster; it goes on trying",
            )
        return found

    async def detach(self, name: str) -> TopicInfo:
        """Forget a topic."""
        return await topics.detach_topic(self._coordination, self._view, name, kept=True)

    async def configs(self, topic: TopicInfo) -> Mapping[str, str]:
        """Return what the Kafka cluster reports, of the settings that are known here (KTP-12)."""
        found = await _passed(self._brokers.topic_configs(topic.name))
        return {name: value for name, value in found.items() if name in TOPIC_CONFIGS}

    async def alter_configs(
        self, name: str, changes: Mapping[str, str | None], *, validate_only: bool
    ) -> None:
        """Change the named settings in the Kafka cluster, and no other."""
        self._check_managed(name, "altered")
        self._known(name)
        if validate_only:
            raise _not_asked()
        await _passed(self._brokers.alter_topic_configs(name, changes))

    async def _ask_again(self, name: str) -> None:
        """Let the controller look at a topic now."""
        await topics.attach_topic(self._coordination, self._view, name)

    async def _shown(self, name: str) -> TopicMetadata | None:
        """Return a topic as the Kafka cluster shows it; None: it knows none of this name.

        Raises:
            RefusedError: It does not tell.
        """
        metadata = await _passed(self._brokers.metadata([name]))
        for found in metadata.topics:
            if found.topic == name and not found.error:
                return found
            if found.topic == name and found.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise RefusedError(
                    _code(found.error),
                    f"the Kafka cluster does not show topic {name!r} to this one (error "
                    f"{found.error}); allow DESCRIBE and READ on it to the user of its processes",
                )
        return None

    def _known(self, name: str) -> TopicInfo:
        found = self._view.topic_named(name)
        if found is None:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name[:300]!r} is not attached; attach it with: sharemesh topics attach",
            )
        return found

    def _check_name(self, name: str) -> None:
        check_topic_name(name)
        if not self._topics.attachable.match(name):
            raise RefusedError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {name!r} may not be attached: kafka_topics leaves it out, or it is one of "
                "the cluster's own",
            )

    def _check_managed(self, name: str, what: str) -> None:
        """Refuse what changes the Kafka cluster, unless that was allowed (KTP-11)."""
        if name in self._topics.attachable.own_topics:
            raise RefusedError(
                ErrorCode.POLICY_VIOLATION, f"topic {name!r} is one of the cluster's own"
            )
        if not self._topics.managed:
            raise RefusedError(
                ErrorCode.POLICY_VIOLATION,
                f"topic {name[:300]!r} is not {what} from here: topics are those of a Kafka "
                "cluster; do it there, or set kafka_manage_topics to true",
            )


async def _passed(asking: Awaitable[Answer]) -> Answer:
    """Return the Kafka cluster's answer; its refusal is passed back."""
    try:
        return await asking
    except BrokerRefusedError as error:
        raise RefusedError(_code(error.code), f"the Kafka cluster refused: {error}") from error
    except (BrokerUnreachableError, UnsupportedRequestError) as error:
        raise RefusedError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{error}; check whether a change took effect before you repeat it",
        ) from error


def _code(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _not_asked() -> RefusedError:
    return invalid_request(
        "the Kafka cluster is not asked whether it would; leave validate_only out"
    )


def _created_here(name: str) -> RefusedError:
    return invalid_request(
        f"topic {name[:300]!r}: topics are created in this cluster, none is attached or detached; "
        "its storage is not kafka"
    )
