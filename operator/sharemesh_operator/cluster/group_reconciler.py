"""ShareGroups: the group's configs in the mesh follow the object; its state is shown."""

from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.admin_results import GroupDescription, GroupOffset
from sharemesh.client.errors import GroupIdNotFoundError, ServiceError
from sharemesh.domain.ids import GroupId, TopicPartition
from sharemesh.ports.cluster import ShardKind
from sharemesh_operator.cluster.cluster_connection import ClusterConnection
from sharemesh_operator.cluster.kube import now_text
from sharemesh_operator.cluster.reconciler import ClusterRef, NamedTenantReconciler, Outcome
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.groups import (
    PAUSED,
    GroupFound,
    PartitionFound,
    backlog,
    configs_refused,
    drifted,
    group_conditions,
    group_configs,
    group_id,
    group_status,
    id_taken,
    is_group_paused,
)
from sharemesh_operator.resources.names import KubeObject

GROUP_SOURCE = "group"


class GroupReconciler(NamedTenantReconciler):
    """Sets the configs of groups, corrects drift, deletes groups by policy, shows their state."""

    kind = "ShareGroup"
    noun = "group"
    content = "share state"
    sweep_ms = 15_000
    name_of = staticmethod(group_id)
    taken = staticmethod(id_taken)

    async def blocked(self, body: KubeObject) -> Condition | None:
        """Return why the group is left alone: it is paused, or its id is taken."""
        return PAUSED if is_group_paused(body) else await super().blocked(body)

    async def bring(self, home: ClusterRef, body: KubeObject) -> Outcome:
        """Set the configs that differ, unless the group is only observed or its cluster paused."""
        admin = await home.mesh.admin()
        refused = None
        managed = body["spec"].get("managementPolicy", "Managed") == "Managed"
        if managed and not home.spec.hands_off:
            refused = await self._set_configs(admin, body)
        found = await _found(home.mesh, admin, body)
        status = group_status(body, found) | backlog(body, found, now_text(self._clock))
        return Outcome(group_conditions(found, refused), status)

    async def delete(self, admin: AsyncAdminClient, body: KubeObject) -> None:
        """Delete the group with its share state, then its configs."""
        group = group_id(body)
        problem = (await admin.delete_groups([group])).get(group)
        if problem is not None and not isinstance(problem, GroupIdNotFoundError):
            raise problem
        await admin.alter_group_configs(group, dict.fromkeys(group_configs(body)))

    async def _set_configs(self, admin: AsyncAdminClient, body: KubeObject) -> Condition | None:
        """Set the configs that differ; return the refusal, if there was one."""
        group = group_id(body)
        current = {
            each.name: each.value
            for each in await admin.describe_group_configs(group)
            if each.source == GROUP_SOURCE
        }
        changes = drifted(body, current)
        if not changes:
            return None
        try:
            await admin.alter_group_configs(group, changes)
        except ServiceError as error:
            if error.retriable:
                raise
            return configs_refused(body, str(error))
        names = ", ".join(sorted(changes))
        await self._events.tell(body, "GroupConfigured", f"set for group {group!r}: {names}")
        return None


async def _found(mesh: ClusterConnection, admin: AsyncAdminClient, body: KubeObject) -> GroupFound:
    group = group_id(body)
    described = (await admin.describe_groups([group])).get(group)
    if not isinstance(described, GroupDescription | GroupIdNotFoundError):
        assert described is not None
        raise described
    known = isinstance(described, GroupDescription)
    view = mesh.view
    shard = view.group_shard(GroupId(group))
    leads = next(
        each for each in view.shards() if (each.kind, each.shard) == (ShardKind.GROUP, shard)
    )
    names = [each["name"] for each in body["spec"]["topics"]]
    partitions, missing = _partitions(mesh, names)
    return GroupFound(
        state=described.state if isinstance(described, GroupDescription) else "",
        group_epoch=described.group_epoch if isinstance(described, GroupDescription) else 0,
        members=len(described.members) if isinstance(described, GroupDescription) else 0,
        shard=shard,
        coordinator=leads.node.node_id if leads.node else "",
        shard_epoch=leads.epoch,
        partitions=partitions,
        missing_topics=missing,
        lag=await _lag(admin, group) if known else -1,
    )


def _partitions(
    mesh: ClusterConnection, names: list[str]
) -> tuple[tuple[PartitionFound, ...], tuple[str, ...]]:
    found, missing = [], []
    for name in names:
        topic = mesh.view.topic_named(name)
        if topic is None:
            missing.append(name)
            continue
        for number in range(topic.partitions):
            leader = mesh.view.leader(TopicPartition(topic.topic_id, number))
            node = leader.node if leader else None
            found.append(
                PartitionFound(
                    name, node.node_id if node else "", draining=bool(node and node.draining)
                )
            )
    return tuple(found), tuple(missing)


async def _lag(admin: AsyncAdminClient, group: str) -> int:
    """Return how many records wait; -1 if some partition cannot tell."""
    offsets = (await admin.list_share_group_offsets(group)).values()
    lags = [each.lag if isinstance(each, GroupOffset) else -1 for each in offsets]
    return -1 if any(lag < 0 for lag in lags) else sum(lags)
