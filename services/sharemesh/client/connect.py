"""``connect``: clients of one cluster from its address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sharemesh.client.admin.client import AdminClient, AsyncAdminClient
from sharemesh.client.config import (
    ADMIN_SETTINGS,
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    Setting,
)
from sharemesh.client.config_sources import from_environment, those_of
from sharemesh.client.consumer.async_share_consumer import AsyncShareConsumer
from sharemesh.client.consumer.share_consumer import ShareConsumer
from sharemesh.client.producer.async_producer import AsyncProducer
from sharemesh.client.producer.producer import Producer


@dataclass(frozen=True, slots=True)
class Cluster:
    """Makes clients of one cluster.

    Attributes:
        settings: Settings common to all of them.
        surroundings: Settings from outside the program; each client takes those that it knows,
            unless the program gave others.
    """

    settings: Mapping[str, Any]
    surroundings: Mapping[str, str] = field(default_factory=dict)

    def share_consumer(
        self,
        group_id: str,
        topics: Sequence[str] = (),
        **config: Any,  # noqa: ANN401
    ) -> ShareConsumer:
        """Return a consumer, subscribed to ``topics`` if there are any.

        ``config`` takes Kafka's names with underscores: ``max_poll_records=100``.
        """
        consumer = ShareConsumer(self._with(CONSUMER_SETTINGS, config, group_id))
        if topics:
            consumer.subscribe(topics)
        return consumer

    def async_share_consumer(self, group_id: str, **config: Any) -> AsyncShareConsumer:  # noqa: ANN401
        """Return a consumer for asyncio."""
        return AsyncShareConsumer(self._with(CONSUMER_SETTINGS, config, group_id))

    def producer(self, **config: Any) -> Producer:  # noqa: ANN401
        """Return a producer."""
        return Producer(self._with(PRODUCER_SETTINGS, config))

    def async_producer(self, **config: Any) -> AsyncProducer:  # noqa: ANN401
        """Return a producer for asyncio."""
        return AsyncProducer(self._with(PRODUCER_SETTINGS, config))

    def admin(self, **config: Any) -> AdminClient:  # noqa: ANN401
        """Return an admin client."""
        return AdminClient(self._with(ADMIN_SETTINGS, config))

    def async_admin(self, **config: Any) -> AsyncAdminClient:  # noqa: ANN401
        """Return an admin client for asyncio."""
        return AsyncAdminClient(self._with(ADMIN_SETTINGS, config))

    def _with(
        self, known: tuple[Setting, ...], config: Mapping[str, Any], group_id: str | None = None
    ) -> dict[str, Any]:
        given = {name.replace("_", "."): value for name, value in config.items()}
        if group_id is not None:
            given["group.id"] = group_id
        return {**those_of(known, self.surroundings), **self.settings, **given}


def connect(bootstrap: str | Sequence[str] | None = None, **config: Any) -> Cluster:  # noqa: ANN401
    """Return a maker of clients of the cluster at ``host:port`` (several: any of them is asked).

    No connection is opened yet. ``config`` holds settings common to all clients. Without an
    address all that is not given comes from the environment: variables such as
    ``SHAREMESH_BOOTSTRAP`` or ``SHAREMESH_MAX_POLL_RECORDS``, and the file that
    ``SHAREMESH_CLIENT_CONFIG`` names.

    Raises:
        ConfigError: The file cannot be read.
    """
    given = {name.replace("_", "."): value for name, value in config.items()}
    if bootstrap is None:
        return Cluster(given, from_environment())
    servers = bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap)
    return Cluster({"bootstrap.servers": servers, **given})
