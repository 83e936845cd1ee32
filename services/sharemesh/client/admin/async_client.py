"""AsyncAdminClient: topics, groups, offsets, configs and the cluster, for asyncio."""

from sharemesh.client.admin.cluster import ClusterAdministration
from sharemesh.client.admin.groups import GroupAdministration
from sharemesh.client.admin.topics import TopicAdministration

EARLIEST = -2
LATEST = -1
LAST_STABLE = -4
"""Timestamps of ``list_offsets`` with a meaning of their own."""


class AsyncAdminClient(TopicAdministration, GroupAdministration, ClusterAdministration):
    """Administers a cluster.

    Calls about several things return a result or an error for each of them; calls about one thing
    raise. Every call ends after ``default.api.timeout.ms``.

    Args:
        config: Kafka's names; ``bootstrap.servers`` is needed.
        environment: The ports; none: real connections, see ``connect``.

    Raises:
        ConfigError: A name or value is not allowed.
    """
