"""ShareTopics: the topic in the mesh follows the object."""

from sharemesh.client.admin.async_client import AsyncAdminClient
from sharemesh.client.admin_results import TopicDescription
from sharemesh.client.errors import (
    ConnectionFailedError,
    RequestTimedOutError,
    SharemeshError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from sharemesh_operator.cluster.cluster_connection import ClusterConnectionError
from sharemesh_operator.cluster.cluster_ref import ClusterGoneError, ClusterResolver, problem_of
from sharemesh_operator.cluster.events import Events
from sharemesh_operator.cluster.kube import Kube, RetryLaterError
from sharemesh_operator.cluster.status_writer import StatusWriter
from sharemesh_operator.resources.cluster_spec import is_paused
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.topics import (
    TopicChange,
    TopicFound,
    change_of,
    topic_condition,
    topic_name,
    topic_status,
)

RETRY_MS = 3_000
DRIFT_MS = 60_000


class TopicReconciler:
    """Creates topics, grows them, corrects their configs, deletes them by policy."""

    def __init__(
        self, kube: Kube, homes: ClusterResolver, writer: StatusWriter, events: Events
    ) -> None:
        self._kube = kube
        self._homes = homes
        self._writer = writer
        self._events = events

    async def reconcile(self, name: str) -> int | None:
        """Bring one topic to what its object says; return after how many ms to look again."""
        body = await self._kube.get("ShareTopic", name)
        if body is None or "deletionTimestamp" in body["metadata"]:
            return None
        rival = await self._rival(body)
        found: TopicFound | None = None
        try:
            if rival:
                condition = _conflict(body, rival)
            else:
                home = await self._homes.home(body)
                hands_off = is_paused(body) or home.spec.hands_off
                found = await self._bring(await home.mesh.admin(), body, hands_off=hands_off)
                condition = topic_condition(body, found)
        except (
            ClusterGoneError,
            ClusterConnectionError,
            ConnectionFailedError,
            RequestTimedOutError,
        ) as error:
            problem = problem_of(error, body)
            condition = Condition.false("Ready", problem.reason, problem.message)
        except SharemeshError as error:
            condition = Condition.false("Ready", "Refused", str(error))
        if condition.status is not True:
            await self._events.tell(body, condition.reason, condition.message, warning=True)
        await self._write(body, found, condition)
        return DRIFT_MS if condition.status else RETRY_MS

    async def finalize(self, body: KubeObject) -> str:
        """Do what the deletion policy says; return what was done.

        Raises:
            RetryLaterError: It cannot be done now; try again.
        """
        name = topic_name(body)
        if body["spec"].get("deletionPolicy", "Retain") != "Delete":
            return f"topic {name!r} is kept"
        if await self._rival(body):
            return f"topic {name!r} is kept: another ShareTopic stands for it"
        try:
            home = await self._homes.home(body)
            problems = await (await home.mesh.admin()).delete_topics([name])
        except ClusterGoneError:
            return f"topic {name!r} is left to the data of its cluster, which is gone"
        except (ClusterConnectionError, SharemeshError) as error:
            raise RetryLaterError(f"topic {name!r} cannot be deleted yet: {error}") from error
        problem = problems.get(name)
        if problem is not None and not isinstance(problem, UnknownTopicOrPartitionError):
            raise RetryLaterError(f"topic {name!r} is not deleted: {problem}")
        return f"topic {name!r} and its records are deleted"

    async def _bring(
        self, admin: AsyncAdminClient, body: KubeObject, *, hands_off: bool
    ) -> TopicFound | None:
        name = topic_name(body)
        found = await describe(admin, name)
        change = change_of(body, found)
        if hands_off or change == TopicChange():
            return found
        if change.create:
            given = {key: value for key, value in change.configs.items() if value is not None}
            try:
                await admin.create_topic(name, change.partitions, given)
            except TopicAlreadyExistsError:
                return await describe(admin, name)
            await self._events.tell(
                body, "TopicCreated", f"topic {name!r} with {change.partitions} partitions"
            )
        else:
            await self._alter(admin, body, change)
        return await describe(admin, name)

    async def _alter(self, admin: AsyncAdminClient, body: KubeObject, change: TopicChange) -> None:
        name = topic_name(body)
        if change.configs:
            await admin.alter_configs(change.configs, name)
            await self._events.tell(
                body, "TopicConfigured", f"{', '.join(sorted(change.configs))} of {name!r} set"
            )
        if change.partitions:
            await admin.add_partitions(name, change.partitions)
            await self._events.tell(
                body, "PartitionsAdded", f"topic {name!r} has {change.partitions} partitions"
            )

    async def _rival(self, body: KubeObject) -> str:
        """Return the older object that stands for the same topic, if there is one."""
        mine = (body["spec"]["clusterRef"]["name"], topic_name(body))
        age = (body["metadata"]["creationTimestamp"], body["metadata"]["name"])
        for other in await self._kube.list("ShareTopic"):
            meta = other["metadata"]
            if (other["spec"]["clusterRef"]["name"], topic_name(other)) != mine:
                continue
            older = (meta["creationTimestamp"], meta["name"]) < age
            if older and "deletionTimestamp" not in meta:
                return str(meta["name"])
        return ""

    async def _write(
        self, body: KubeObject, found: TopicFound | None, condition: Condition
    ) -> None:
        status = topic_status(body, found)
        if found is None:  # what is not known now is left as it was
            status = {key: value for key, value in status.items() if value}
            status["observedGeneration"] = body["metadata"].get("generation", 0)
        await self._writer.write(body, status, [condition])


async def describe(admin: AsyncAdminClient, name: str) -> TopicFound | None:
    """Return a topic, or None if there is none of this name.

    Raises:
        SharemeshError: It could not be asked for.
    """
    found = (await admin.describe_topics([name])).get(name)
    if isinstance(found, UnknownTopicOrPartitionError) or found is None:
        return None
    if not isinstance(found, TopicDescription):
        raise found
    return TopicFound(
        topic_id=found.topic_id,
        partitions=len(found.partitions),
        led=sum(bool(each.leader_id) for each in found.partitions),
        configs=found.configs,
    )


def _conflict(body: KubeObject, rival: str) -> Condition:
    return Condition.false(
        "Ready",
        "NameTaken",
        f"ShareTopic {rival!r} stands for topic {topic_name(body)!r} already; delete one of them",
    )
