"""ShareGroupOperations: done once, with the result in status, deleted after a while."""

import sharemesh_operator.resources.operations as told
from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.admin_results import LogOffset, TopicDescription, TopicPartition
from sharemesh.client.errors import GroupIdNotFoundError, NonEmptyGroupError
from sharemesh_operator.cluster.kube import now_text, now_time
from sharemesh_operator.cluster.reconciler import ClusterRef, Outcome, TenantReconciler
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.groups import group_id
from sharemesh_operator.resources.names import HELD_ANNOTATION, KubeObject
from sharemesh_operator.resources.problems import REFUSED, Problem
from sharemesh_operator.resources.tenants import cluster_of

RETRY_MS = 2_000
PROBLEMS_MAX = 5


class OperationError(Exception):
    """The operation failed for good; the condition says why."""

    def __init__(self, reason: str, **about: object) -> None:
        self.condition = told.failed(reason, **about)
        super().__init__(self.condition.message)


class OperationReconciler(TenantReconciler):
    """Carries operations out; each is idempotent, so a new operator may begin it again."""

    kind = "ShareGroupOperation"
    summary = told.SUCCEEDED
    retry_ms = RETRY_MS
    sweep_ms = RETRY_MS  # the next round sees that it is finished, and plans its deletion

    async def round(self, body: KubeObject) -> int | None:
        """Carry an operation out, or delete one that was kept long enough."""
        if not told.finished(body):
            return await super().round(body)
        left_s = told.left_to_live_s(body, now_time(self._clock))
        if left_s is None:
            return None
        if left_s > 0:
            return round(left_s * 1_000) + 1
        meta = body["metadata"]
        await self._kube.delete(self.kind, meta["name"], uid=meta["uid"])
        return None

    async def bring(self, home: ClusterRef, body: KubeObject) -> Outcome:
        """Do what the operation says, as far as it goes now."""
        try:
            match body["spec"]["operation"]:
                case "ResetOffsets":
                    return self._outcome_of(body, *await self._reset(home, body))
                case "DeleteState":
                    return self._outcome_of(body, *await self._delete(home, body))
                case _:
                    return self._outcome_of(body, await self._drain(home, body))
        except OperationError as error:
            return self._outcome_of(body, error.condition)

    def troubled(self, body: KubeObject, problem: Problem) -> Outcome:
        """Return the end of an operation that was refused; any other is tried again."""
        said = problem.condition(self.summary)
        if problem.reason != REFUSED:
            said = Condition.unknown(self.summary, problem.reason, problem.message)
        return self._outcome_of(body, said)

    async def announce(self, body: KubeObject, said: Condition) -> None:
        """Post an Event when the operation is over, well or not."""
        if said.status is not None:
            await self._events.tell(body, said.reason, said.message, warning=not said.status)

    def _outcome_of(
        self, body: KubeObject, said: Condition, partitions: int | None = None
    ) -> Outcome:
        now = now_text(self._clock)
        if said.status is None and told.age_s(body, now_time(self._clock)) > told.GIVE_UP_S:
            said = told.failed("TimedOut", limit_s=told.GIVE_UP_S, last=said.message)
        over = said.status is not None
        return Outcome(
            [said], told.operation_status(body, now=now, partitions=partitions, over=over)
        )

    async def _group(self, body: KubeObject) -> KubeObject:
        name = body["spec"]["groupRef"]["name"]
        found = await self._kube.get("ShareGroup", name)
        if found is None:
            namespace = body["metadata"]["namespace"]
            raise OperationError("GroupNotFound", name=name, namespace=namespace)
        if cluster_of(found) != cluster_of(body):
            raise OperationError("OtherCluster", name=name)
        return found

    async def _reset(self, home: ClusterRef, body: KubeObject) -> tuple[Condition, int]:
        group = await self._group(body)
        admin = await home.mesh.admin()
        names = [each["name"] for each in group["spec"]["topics"]]
        offsets = await _offsets_at(admin, names, told.timestamp_ms(body))
        try:
            changed = await admin.alter_share_group_offsets(group_id(group), offsets)
        except NonEmptyGroupError as error:
            raise OperationError("GroupNotEmpty", group=group_id(group)) from error
        problems = [f"{where}: {problem}" for where, problem in changed.items() if problem]
        done = len(changed) - len(problems)
        if problems:
            return told.failed("Refused", why="; ".join(problems[:PROBLEMS_MAX])), done
        position = body["spec"]["resetTo"]
        named = group_id(group)
        return told.done("OffsetsReset", partitions=done, group=named, position=position), done

    async def _delete(self, home: ClusterRef, body: KubeObject) -> tuple[Condition, int]:
        group = group_id(await self._group(body))
        admin = await home.mesh.admin()
        try:
            count = len(await admin.list_share_group_offsets(group))
        except GroupIdNotFoundError:
            count = 0
        problem = (await admin.delete_groups([group])).get(group)
        if isinstance(problem, GroupIdNotFoundError):
            return told.done("NothingToDelete", group=group), 0
        if isinstance(problem, NonEmptyGroupError):
            raise OperationError("GroupNotEmpty", group=group)
        if problem is not None:
            raise problem
        return told.done("StateDeleted", group=group), count

    async def _drain(self, home: ClusterRef, body: KubeObject) -> Condition:
        name, mine = body["spec"]["node"], body["metadata"]["name"]
        pod = await self._kube.get("Pod", name)
        if pod is None or not told.is_pod_of(home.spec, pod):
            raise OperationError("NodeNotFound", name=name, cluster=home.spec.name)
        node = home.mesh.nodes().get(name)
        if (pod["metadata"].get("annotations") or {}).get(HELD_ANNOTATION) != mine:
            await self.begin_drain(body, name, home.mesh, held=mine)
            return told.under_way("Draining", name=name, serves=node.serves if node else 0)
        return told.drain_state(home.spec, pod, node, now_s=self._clock.wall_ms() // 1_000)


async def _offsets_at(
    admin: AsyncAdminClient, names: list[str], when_ms: int
) -> dict[TopicPartition, int]:
    """Return the offset at a time of each partition; after the last record: the end."""
    described = await admin.describe_topics(names)
    places = []
    for name, topic in described.items():
        if not isinstance(topic, TopicDescription):
            raise OperationError("TopicNotFound", name=name, error=topic)
        places += [TopicPartition(name, each.partition) for each in topic.partitions]
    found = await _offsets(admin, dict.fromkeys(places, when_ms))
    late = [where for where, offset in found.items() if offset < 0]
    return found | await _offsets(admin, dict.fromkeys(late, told.LATEST))


async def _offsets(
    admin: AsyncAdminClient, wanted: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    found = {}
    for where, answer in (await admin.list_offsets(wanted)).items():
        if not isinstance(answer, LogOffset):
            raise answer
        found[where] = answer.offset
    return found
