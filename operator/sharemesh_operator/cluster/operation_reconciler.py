"""ShareGroupOperations: done once, with the result in status, gone after a while."""

import sharemesh_operator.resources.names as w
from sharemesh.client.admin.async_client import AsyncAdminClient
from sharemesh.client.admin_results import LogOffset, TopicDescription, TopicPartition
from sharemesh.client.errors import (
    ConnectionFailedError,
    GroupIdNotFoundError,
    NonEmptyGroupError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    SharemeshError,
)
from sharemesh.ports.clock import Clock
from sharemesh_operator.cluster.cluster_connection import ClusterConnectionError
from sharemesh_operator.cluster.cluster_reconciler import ClusterReconciler
from sharemesh_operator.cluster.cluster_ref import (
    ClusterGoneError,
    ClusterRef,
    ClusterResolver,
    problem_of,
)
from sharemesh_operator.cluster.events import Events
from sharemesh_operator.cluster.kube import Kube, now_text, now_time
from sharemesh_operator.cluster.status_writer import StatusWriter
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.groups import group_id
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.operations import (
    LATEST,
    SUCCEEDED,
    finished,
    left_to_live_s,
    operation_status,
    parse_time,
    refused,
    timestamp_ms,
)

RETRY_MS = 2_000
GIVE_UP_S = 600
DRAIN_MARGIN_S = 30

_MAY_PASS = (
    ClusterGoneError,
    ClusterConnectionError,
    ConnectionFailedError,
    RequestTimedOutError,
    NotLeaderOrFollowerError,
)


class OperationError(Exception):
    """It cannot be done, now or later; the condition says why."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.condition = Condition.false(SUCCEEDED, reason, message)


class OperationReconciler:
    """Carries operations out; each is idempotent, so a new operator may begin it again."""

    def __init__(
        self,
        kube: Kube,
        homes: ClusterResolver,
        clusters: ClusterReconciler,
        writer: StatusWriter,
        events: Events,
        clock: Clock,
    ) -> None:
        self._kube = kube
        self._homes = homes
        self._clusters = clusters
        self._writer = writer
        self._events = events
        self._clock = clock

    async def reconcile(self, name: str) -> int | None:
        """Do, or go on with, one operation; return after how many ms to look again."""
        body = await self._kube.get("ShareGroupOperation", name)
        if body is None or "deletionTimestamp" in body["metadata"]:
            return None
        if finished(body):
            return await self._keep(body)
        try:
            home = await self._homes.home(body)
            condition, partitions = await self._carry_out(home, body)
        except OperationError as error:
            condition, partitions = error.condition, None
        except _MAY_PASS as error:
            problem = problem_of(error, body)
            condition = Condition.unknown(SUCCEEDED, problem.reason, problem.message)
            partitions = None
        except SharemeshError as error:
            condition, partitions = Condition.false(SUCCEEDED, "Refused", str(error)), None
        if condition.status is None and self._age_s(body) > GIVE_UP_S:
            text = f"given up after {GIVE_UP_S} s: {condition.message}"
            condition = Condition.false(SUCCEEDED, "TimedOut", text)
        return await self._write(body, condition, partitions)

    async def _write(self, body: KubeObject, condition: Condition, partitions: int | None) -> int:
        over = condition.status is not None
        status = operation_status(body, now=now_text(self._clock), partitions=partitions, over=over)
        await self._writer.write(body, status, [condition])
        if over:
            await self._events.tell(
                body, condition.reason, condition.message, warning=not condition.status
            )
        return RETRY_MS

    async def _keep(self, body: KubeObject) -> int | None:
        left_s = left_to_live_s(body, now_time(self._clock))
        if left_s is None:
            return None
        if left_s > 0:
            return round(left_s * 1_000) + 1
        meta = body["metadata"]
        await self._kube.delete("ShareGroupOperation", meta["name"], uid=meta["uid"])
        return None

    def _age_s(self, body: KubeObject) -> float:
        began = (body.get("status") or {}).get("startTime")
        if not began:
            return 0
        return (now_time(self._clock) - parse_time(began)).total_seconds()

    async def _carry_out(self, home: ClusterRef, body: KubeObject) -> tuple[Condition, int | None]:
        match body["spec"]["operation"]:
            case "ResetOffsets":
                return await self._reset(home, body)
            case "DeleteState":
                return await self._delete(home, body)
            case _:
                return await self._drain(home, body)

    async def _group(self, body: KubeObject) -> KubeObject:
        name = body["spec"]["groupRef"]["name"]
        found = await self._kube.get("ShareGroup", name)
        if found is None:
            raise OperationError(
                "GroupNotFound",
                f"there is no ShareGroup {name!r} in namespace {body['metadata']['namespace']!r}",
            )
        if found["spec"]["clusterRef"]["name"] != body["spec"]["clusterRef"]["name"]:
            raise OperationError(
                "OtherCluster", f"ShareGroup {name!r} belongs to another ShareCluster"
            )
        return found

    async def _reset(self, home: ClusterRef, body: KubeObject) -> tuple[Condition, int | None]:
        group = await self._group(body)
        admin = await home.mesh.admin()
        names = [each["name"] for each in group["spec"]["topics"]]
        offsets = await _offsets_at(admin, names, timestamp_ms(body))
        try:
            changed = await admin.alter_share_group_offsets(group_id(group), offsets)
        except NonEmptyGroupError as error:
            raise _not_empty(group_id(group)) from error
        problems = [f"{where}: {problem}" for where, problem in changed.items() if problem]
        done = len(changed) - len(problems)
        if problems:
            return refused(problems), done
        text = f"{done} partitions of group {group_id(group)!r} start at {body['spec']['resetTo']}"
        return Condition.true(SUCCEEDED, "OffsetsReset", text), done

    async def _delete(self, home: ClusterRef, body: KubeObject) -> tuple[Condition, int | None]:
        group = group_id(await self._group(body))
        admin = await home.mesh.admin()
        count = 0
        try:
            count = len(await admin.list_share_group_offsets(group))
        except GroupIdNotFoundError:
            count = 0
        problem = (await admin.delete_groups([group])).get(group)
        if isinstance(problem, GroupIdNotFoundError):
            return Condition.true(SUCCEEDED, "NothingToDelete", f"group {group!r} is not there"), 0
        if isinstance(problem, NonEmptyGroupError):
            raise _not_empty(group)
        if problem is not None:
            raise problem
        text = f"group {group!r} and its share state are deleted"
        return Condition.true(SUCCEEDED, "StateDeleted", text), count

    async def _drain(self, home: ClusterRef, body: KubeObject) -> tuple[Condition, int | None]:
        name = body["spec"]["node"]
        pod = await self._kube.get("Pod", name)
        labels = (pod or {}).get("metadata", {}).get("labels") or {}
        if pod is None or labels.get(w.CLUSTER_LABEL) != home.spec.name:
            raise OperationError(
                "NodeNotFound", f"there is no pod {name!r} of ShareCluster {home.spec.name!r}"
            )
        nodes = home.mesh.nodes()
        node = nodes.get(name)
        annotations = pod["metadata"].get("annotations") or {}
        if annotations.get(w.HELD_ANNOTATION) != body["metadata"]["name"]:
            await self._clusters.begin_drain(body, name, home.mesh, held=body["metadata"]["name"])
            return self._draining(name, node.serves if node else 0), None
        if node is None or (node.draining and node.serves == 0):
            text = f"{name} leads nothing any more; delete the pod to let it take part again"
            return Condition.true(SUCCEEDED, "Drained", text), None
        began = annotations.get(w.DRAIN_ANNOTATION, "0")
        age_s = self._clock.wall_ms() // 1_000 - int(began)
        limit_s = max(role.drain_timeout_s for role in home.spec.roles.values()) + DRAIN_MARGIN_S
        if age_s > limit_s:
            raise OperationError(
                "DrainTimedOut",
                f"{name} still leads {node.serves} partitions or shards after {age_s} s; is there "
                "another ready pod of its role?",
            )
        return self._draining(name, node.serves), None

    @staticmethod
    def _draining(name: str, serves: int) -> Condition:
        text = f"{name} hands over; it leads {serves} partitions or shards"
        return Condition.unknown(SUCCEEDED, "Draining", text)


async def _offsets_at(
    admin: AsyncAdminClient, names: list[str], when_ms: int
) -> dict[TopicPartition, int]:
    """Return the offset at a time of each partition; after the last record: the end."""
    described = await admin.describe_topics(names)
    places = []
    for name, topic in described.items():
        if not isinstance(topic, TopicDescription):
            raise OperationError("TopicNotFound", f"topic {name!r}: {topic}")
        places += [TopicPartition(name, each.partition) for each in topic.partitions]
    found = await _offsets(admin, dict.fromkeys(places, when_ms))
    late = [where for where, offset in found.items() if offset < 0]
    return found | await _offsets(admin, dict.fromkeys(late, LATEST))


async def _offsets(
    admin: AsyncAdminClient, wanted: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    found = {}
    for where, answer in (await admin.list_offsets(wanted)).items():
        if not isinstance(answer, LogOffset):
            raise answer
        found[where] = answer.offset
    return found


def _not_empty(group: str) -> OperationError:
    return OperationError(
        "GroupNotEmpty", f"group {group!r} has members; stop its consumers, then create this again"
    )
