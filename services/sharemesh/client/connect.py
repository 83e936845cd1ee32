"""``connect``: clients of one cluster from its address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sharemesh.client.admin import AdminClient
from sharemesh.client.async_admin import AsyncAdminClient
from sharemesh.client.async_consumer import AsyncShareConsumer
from sharemesh.client.async_producer import AsyncProducer
from sharemesh.client.producer import Producer
from sharemesh.client.share_consumer import ShareConsumer


@dataclass(frozen=True, slots=True)
class Cluster:
    """Makes clients of one cluster; ``settings`` are common to all of them."""

    settings: Mapping[str, Any]

    def share_consumer(
        self,
        group_id: str,
        topics: Sequence[str] = (),
        **config: Any,  # noqa: ANN401
    ) -> ShareConsumer:
        """Return a consumer, subscribed to ``topics`` if there are any.

        ``config`` takes Kafka's names with underscores: ``max_poll_records=100``.
        """
        consumer = ShareConsumer({**self._with(config), "group.id": group_id})
        if topics:
            consumer.subscribe(topics)
        return consumer

    def async_share_consumer(self, group_id: str, **config: Any) -> AsyncShareConsumer:  # noqa: ANN401
        """Return a consumer for asyncio."""
        return AsyncShareConsumer({**self._with(config), "group.id": group_id})

    def producer(self, **config: Any) -> Producer:  # noqa: ANN401
        """Return a producer."""
        return Producer(self._with(config))

    def async_producer(self, **config: Any) -> AsyncProducer:  # noqa: ANN401
        """Return a producer for asyncio."""
        return AsyncProducer(self._with(config))

    def admin(self, **config: Any) -> AdminClient:  # noqa: ANN401
        """Return an admin client."""
        return AdminClient(self._with(config))

    def async_admin(self, **config: Any) -> AsyncAdminClient:  # noqa: ANN401
        """Return an admin client for asyncio."""
        return AsyncAdminClient(self._with(config))

    def _with(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.settings, **{name.replace("_", "."): v for name, v in config.items()}}


def connect(bootstrap: str | Sequence[str], **config: Any) -> Cluster:  # noqa: ANN401
    """Return a maker of clients of the cluster at ``host:port`` (several: any of them is asked).

    No connection is opened yet. ``config`` holds settings common to all clients.
    """
    servers = bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap)
    return Cluster(
        {
            "bootstrap.servers": servers,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
    )
