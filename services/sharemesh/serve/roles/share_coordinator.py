"""The share coordinator, built."""

from dataclasses import replace

from sharemesh.cluster.membership import ClusterMember
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.network import Listener
from sharemesh.serve.process_context import ProcessContext, ShardRole
from sharemesh.serve.settings.room_settings import share_coordinator_settings
from sharemesh.serve.storage.process_storage import ProcessStorage
from sharemesh.share_coordinator.service import ShareCoordinatorService

_DAY_MS = 24 * 60 * 60 * 1_000


class ShareCoordinatorRole(ShardRole):
    """State shards, elected one by one."""

    def __init__(self, around: ProcessContext) -> None:
        super().__init__(around, ShardKind.STATE)
        configs = around.view.cluster_configs()
        self._service = ShareCoordinatorService(
            around.view,
            around.clock,
            around.storage.shard_logs(ShardKind.STATE),
            replace(
                share_coordinator_settings(configs), topic_grace_ms=_topic_grace_ms(around.storage)
            ),
            authorizer=around.authorizer,
            generations=around.storage.generations(),
            telemetry=around.telemetry,
        )

    def offer(self, listener: Listener) -> None:
        """Offer ``ShareCoordinator``."""
        self._service.offer(listener)

    async def start(self, member: ClusterMember) -> None:
        """Stand for election of every state shard."""
        self._service.start()
        await self.stand(member, self._service.shards)

    async def close(self) -> None:
        """Leave the elections and relinquish what is left."""
        await super().close()
        await self._service.close()


def _topic_grace_ms(storage: ProcessStorage) -> int:
    """Return how long states outlive a topic of a Kafka cluster (KTP-10).

    A group coordinator forgets a topic after one to two graces of its process. It must not count on
    a state that is gone, also where one process after another began anew meanwhile.
    """
    topics = storage.broker_topics
    return 3 * topics.grace_ms + _DAY_MS if topics is not None and topics.grace_ms else 0
