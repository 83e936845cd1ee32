"""ShareGroups: the group's configs in the mesh follow the object; its state is shown."""

from sharemesh.client.admin.async_client import AsyncAdminClient
from sharemesh.client.admin_results import GroupDescription, GroupOffset
from sharemesh.client.errors import (
    ConnectionFailedError,
    GroupIdNotFoundError,
    RequestTimedOutError,
    SharemeshError,
)
from sharemesh.domain.ids import GroupId, TopicPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardKind
from sharemesh_operator.cluster.cluster_connection import ClusterConnection, ClusterConnectionError
from sharemesh_operator.cluster.cluster_ref import ClusterGoneError, ClusterResolver, problem_of
from sharemesh_operator.cluster.events import Events
from sharemesh_operator.cluster.kube import Kube, RetryLaterError, now_text
from sharemesh_operator.cluster.status_writer import StatusWriter
from sharemesh_operator.resources.cluster_spec import is_paused
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.groups import (
    GroupFound,
    PartitionFound,
    drifted,
    group_conditions,
    group_configs,
    group_id,
    group_status,
)
from sharemesh_operator.resources.names import KubeObject

RETRY_MS = 3_000
LOOK_MS = 15_000
GROUP_SOURCE = "group"


class GroupReconciler:
    """Sets the configs of groups, corrects drift, deletes groups by policy, tells their state."""

    def __init__(
        self, kube: Kube, homes: ClusterResolver, writer: StatusWriter, events: Events, clock: Clock
    ) -> None:
        self._kube = kube
        self._homes = homes
        self._writer = writer
        self._events = events
        self._clock = clock

    async def reconcile(self, name: str) -> int | None:
        """Bring one group to what its object says; return after how many ms to look again."""
        body = await self._kube.get("ShareGroup", name)
        if body is None or "deletionTimestamp" in body["metadata"]:
            return None
        policy = body["spec"].get("managementPolicy", "Managed")
        if policy == "Paused" or is_paused(body):
            text = "nothing is changed and nothing is looked at; set managementPolicy to Managed"
            return await self._say(body, [Condition.unknown("Ready", "Paused", text)])
        rival = await self._rival(body)
        if rival:
            text = f"ShareGroup {rival!r} stands for group {group_id(body)!r} already; delete one"
            return await self._say(body, [Condition.false("Ready", "IdTaken", text)])
        return await self._reconcile(body, policy)

    async def finalize(self, body: KubeObject) -> str:
        """Do what the deletion policy says; return what was done.

        Raises:
            RetryLaterError: It cannot be done now; try again.
        """
        group = group_id(body)
        if body["spec"].get("deletionPolicy", "Retain") != "Delete":
            return f"group {group!r} and its state are kept"
        if await self._rival(body):
            return f"group {group!r} is kept: another ShareGroup stands for it"
        try:
            home = await self._homes.home(body)
            admin = await home.mesh.admin()
            problem = (await admin.delete_groups([group])).get(group)
            if problem is not None and not isinstance(problem, GroupIdNotFoundError):
                raise problem
            await admin.alter_group_configs(group, dict.fromkeys(group_configs(body)))
        except ClusterGoneError:
            return f"group {group!r} is left to the data of its cluster, which is gone"
        except (ClusterConnectionError, SharemeshError) as error:
            raise RetryLaterError(f"group {group!r} cannot be deleted yet: {error}") from error
        return f"group {group!r} and its share state are deleted"

    async def _reconcile(self, body: KubeObject, policy: str) -> int:
        try:
            home = await self._homes.home(body)
            admin = await home.mesh.admin()
            refused = None
            if policy == "Managed" and not home.spec.hands_off:
                refused = await self._bring(admin, body)
            found = await _found(home.mesh, admin, body)
        except (ClusterGoneError, ClusterConnectionError, SharemeshError) as error:
            problem = problem_of(error, body)
            return await self._say(
                body, [Condition.false("Ready", problem.reason, problem.message)]
            )
        said = group_conditions(found, refused)
        status = group_status(body, found)
        old = ((body.get("status") or {}).get("backlog") or {}) if found.lag >= 0 else {}
        if found.lag >= 0:
            changed = old.get("records") != found.lag
            when = now_text(self._clock) if changed else old.get("observedTime")
            status["backlog"] = {"records": found.lag, "observedTime": when}
        await self._warn(body, said[0])
        left_ms = await self._writer.write(body, status, said)
        again_ms = LOOK_MS if said[0].status else RETRY_MS
        return again_ms if left_ms is None else min(again_ms, left_ms)

    async def _bring(self, admin: AsyncAdminClient, body: KubeObject) -> Condition | None:
        """Set the configs that differ; return what was refused, if something was."""
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
        except (ConnectionFailedError, RequestTimedOutError):
            raise
        except SharemeshError as error:
            return Condition.false(
                "Accepted",
                "ConfigsRefused",
                f"the cluster refuses the configs of group {group!r}: {error}",
            )
        names = ", ".join(sorted(changes))
        await self._events.tell(body, "GroupConfigured", f"set for group {group!r}: {names}")
        return None

    async def _rival(self, body: KubeObject) -> str:
        """Return the older object that stands for the same group, if there is one."""
        mine = (body["spec"]["clusterRef"]["name"], group_id(body))
        age = (body["metadata"]["creationTimestamp"], body["metadata"]["name"])
        for other in await self._kube.list("ShareGroup"):
            meta = other["metadata"]
            if (other["spec"]["clusterRef"]["name"], group_id(other)) != mine:
                continue
            older = (meta["creationTimestamp"], meta["name"]) < age
            if older and "deletionTimestamp" not in meta:
                return str(meta["name"])
        return ""

    async def _say(self, body: KubeObject, said: list[Condition]) -> int:
        await self._warn(body, said[0])
        status = {"observedGeneration": body["metadata"].get("generation", 0)}
        await self._writer.write(body, status, said)
        return RETRY_MS

    async def _warn(self, body: KubeObject, ready: Condition) -> None:
        if ready.status is False:
            await self._events.tell(body, ready.reason, ready.message, warning=True)


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
