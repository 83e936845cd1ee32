"""ShareTopics: the topic in the mesh follows the object."""

from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.admin_results import TopicDescription
from sharemesh.client.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from sharemesh_operator.cluster.reconciler import ClusterRef, NamedTenantReconciler, Outcome
from sharemesh_operator.resources.cluster_spec import ClusterSpec, is_paused
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.topics import (
    TopicChange,
    TopicFound,
    change_of,
    name_taken,
    not_in_kafka,
    topic_condition,
    topic_name,
    topic_status,
)


class TopicReconciler(NamedTenantReconciler):
    """Creates topics, grows them, corrects their configs, deletes them by policy.

    With Kafka storage they are adopted: attached if they are there, and otherwise made only where
    the cluster manages topics.
    """

    kind = "ShareTopic"
    noun = "topic"
    content = "records"
    name_of = staticmethod(topic_name)
    taken = staticmethod(name_taken)

    async def bring(self, home: ClusterRef, body: KubeObject) -> Outcome:
        """Create, adopt or alter the topic, unless it or its cluster is paused."""
        admin, kafka = await home.mesh.admin(), home.spec.storage.kafka
        found = await describe(admin, topic_name(body))
        may_change = not is_paused(body) and not home.spec.hands_off
        if kafka is not None and found is None and may_change:
            found = await self._adopted(admin, body)
            if found is None and not kafka.manage_topics:
                return Outcome([not_in_kafka(body)], topic_status(body, None))
        change = change_of(body, found, adopts=kafka is not None)
        if change != TopicChange() and may_change:
            await self._change(admin, body, change)
            found = await describe(admin, topic_name(body))
        return Outcome([topic_condition(body, found)], topic_status(body, found))

    async def delete(self, admin: AsyncAdminClient, body: KubeObject) -> None:
        """Delete the topic."""
        name = topic_name(body)
        problem = (await admin.delete_topics([name])).get(name)
        if problem is not None and not isinstance(problem, UnknownTopicOrPartitionError):
            raise problem

    def kept_by(self, spec: ClusterSpec) -> str:
        """Return that topics of Kafka storage are deleted there: others use them too."""
        return "" if spec.storage.kafka is None else "topics of Kafka storage are deleted in Kafka"

    def known(self, body: KubeObject) -> KubeObject:
        """Return the topic's name."""
        return topic_status(body, None)

    async def _adopted(self, admin: AsyncAdminClient, body: KubeObject) -> TopicFound | None:
        """Return the topic of the Kafka cluster, attached; None: there is none of this name."""
        name = topic_name(body)
        problem = (await admin.attach_topics([name])).get(name)
        if isinstance(problem, UnknownTopicOrPartitionError):
            return None
        if problem is not None:
            raise problem
        await self._events.tell(body, "TopicAttached", f"topic {name!r} of the Kafka cluster")
        return await describe(admin, name)

    async def _change(self, admin: AsyncAdminClient, body: KubeObject, change: TopicChange) -> None:
        name = topic_name(body)
        if change.create:
            given = {key: value for key, value in change.configs.items() if value is not None}
            try:
                await admin.create_topic(name, change.partitions, given)
            except TopicAlreadyExistsError:
                return
            await self._events.tell(
                body, "TopicCreated", f"topic {name!r} with {change.partitions} partitions"
            )
            return
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


async def describe(admin: AsyncAdminClient, name: str) -> TopicFound | None:
    """Return a topic, or None if there is none of this name.

    Raises:
        SharemeshError: The cluster did not describe it.
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
