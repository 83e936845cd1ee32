"""The admin clients: topics, groups, offsets, configs and the cluster; asyncio and threads."""

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sharemesh.client.admin.cluster import ClusterAdministration, TopicAdministration
from sharemesh.client.admin.groups import GroupAdministration
from sharemesh.client.admin.users import UserAdministration
from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.environment import ClientEnvironment

EARLIEST = -2
LATEST = -1
LAST_STABLE = -4
"""Timestamps of ``list_offsets`` with a meaning of their own."""


P = ParamSpec("P")
R = TypeVar("R")


class AsyncAdminClient(
    TopicAdministration, GroupAdministration, ClusterAdministration, UserAdministration
):
    """Administers a cluster.

    Calls about several things return a result or an error for each of them; calls about one thing
    raise. Every call ends after ``default.api.timeout.ms``.

    Args:
        config: Kafka's names; ``bootstrap.servers`` is needed.
        environment: The ports; none: real connections, see ``connect``.

    Raises:
        ConfigError: A name or value is not allowed.
    """


def _blocking(
    method: Callable[Concatenate[AsyncAdminClient, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["AdminClient", P], R]:
    """Return the method that waits for a coroutine: its name, signature and docstring stay."""

    @functools.wraps(method)
    def call(self: "AdminClient", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop.run(method(self._admin, *args, **kwargs))

    call.__qualname__ = f"AdminClient.{method.__name__}"
    call.__module__ = __name__
    return call


class AdminClient:
    """Administers a cluster, from any thread.

    Arguments, results and errors are those of ``AsyncAdminClient``.
    """

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        self._admin = AsyncAdminClient(config, environment=environment)
        self._loop = BackgroundLoop("sharemesh-admin")

    def metrics(self) -> Mapping[str, int]:
        """Return how long quotas make calls wait (spec QUO-11), in milliseconds."""
        return self._admin.metrics()

    def close(self) -> None:
        """Close the connections. Repeating it is fine."""
        if self._loop.is_open:
            self._loop.run(self._admin.close())
            self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    create_topics = _blocking(AsyncAdminClient.create_topics)
    create_topic = _blocking(AsyncAdminClient.create_topic)
    delete_topics = _blocking(AsyncAdminClient.delete_topics)
    attach_topics = _blocking(AsyncAdminClient.attach_topics)
    detach_topics = _blocking(AsyncAdminClient.detach_topics)
    add_partitions = _blocking(AsyncAdminClient.add_partitions)
    list_topics = _blocking(AsyncAdminClient.list_topics)
    describe_topics = _blocking(AsyncAdminClient.describe_topics)
    describe_cluster = _blocking(AsyncAdminClient.describe_cluster)
    drain_node = _blocking(AsyncAdminClient.drain_node)
    accept_loss = _blocking(AsyncAdminClient.accept_loss)
    list_groups = _blocking(AsyncAdminClient.list_groups)
    describe_groups = _blocking(AsyncAdminClient.describe_groups)
    delete_groups = _blocking(AsyncAdminClient.delete_groups)
    list_share_group_offsets = _blocking(AsyncAdminClient.list_share_group_offsets)
    alter_share_group_offsets = _blocking(AsyncAdminClient.alter_share_group_offsets)
    import_delivery_states = _blocking(AsyncAdminClient.import_delivery_states)
    delete_share_group_offsets = _blocking(AsyncAdminClient.delete_share_group_offsets)
    describe_group_configs = _blocking(AsyncAdminClient.describe_group_configs)
    alter_group_configs = _blocking(AsyncAdminClient.alter_group_configs)
    pause_group = _blocking(AsyncAdminClient.pause_group)
    resume_group = _blocking(AsyncAdminClient.resume_group)
    describe_configs = _blocking(AsyncAdminClient.describe_configs)
    alter_configs = _blocking(AsyncAdminClient.alter_configs)
    list_offsets = _blocking(AsyncAdminClient.list_offsets)
    delete_records = _blocking(AsyncAdminClient.delete_records)
    list_transactions = _blocking(AsyncAdminClient.list_transactions)
    abort_transaction = _blocking(AsyncAdminClient.abort_transaction)
    explain = _blocking(AsyncAdminClient.explain)
    create_acls = _blocking(AsyncAdminClient.create_acls)
    delete_acls = _blocking(AsyncAdminClient.delete_acls)
    describe_acls = _blocking(AsyncAdminClient.describe_acls)
    alter_client_quotas = _blocking(AsyncAdminClient.alter_client_quotas)
    describe_client_quotas = _blocking(AsyncAdminClient.describe_client_quotas)
    alter_user_scram_credentials = _blocking(AsyncAdminClient.alter_user_scram_credentials)
    describe_user_scram_credentials = _blocking(AsyncAdminClient.describe_user_scram_credentials)
