"""The share-partition leader, built."""

from dataclasses import replace

from sharemesh.cluster.claims.claim_policy import ClaimSettings
from sharemesh.cluster.claims.partition_claims import PartitionClaims
from sharemesh.cluster.membership import ClusterMember
from sharemesh.domain.group_config.cluster_definitions import MAX_SHARE_SESSIONS
from sharemesh.domain.group_config.evaluate import cluster_int
from sharemesh.persister.persister import Persister
from sharemesh.ports.network import Listener
from sharemesh.serve.process_context import ProcessContext, RoleService
from sharemesh.serve.settings.room_settings import persister_settings
from sharemesh.share_leader.service import ShareLeaderService
from sharemesh.share_leader.settings import LeaderSettings


class ShareLeaderRole(RoleService):
    """Topic-partitions, claimed as they are assigned."""

    def __init__(self, around: ProcessContext) -> None:
        self._around = around
        configs = around.view.cluster_configs()
        self._persister = Persister(
            around.caller, around.view, around.clock, around.rng, persister_settings(configs)
        )
        self._service = ShareLeaderService(
            node_id=around.node_id,
            clock=around.clock,
            view=around.view,
            record_logs=around.storage.record_logs(),
            persister=self._persister,
            authorizer=around.authorizer,
            producer_ids=around.storage.producer_ids(self._highest_id),
            settings=leader_settings(
                cluster_int(configs, MAX_SHARE_SESSIONS),
                callers_have_names=around.settings.callers_have_names,
                kafka_clients_have_names=around.settings.kafka_clients_have_names,
            ),
            telemetry=around.telemetry,
            quotas=around.quotas,
            rng=around.rng,
        )
        self._claims: PartitionClaims | None = None

    def _highest_id(self) -> int:
        logs = (led.log for led in self._service.partitions)
        return max((log.highest_producer_id for log in logs), default=-1)

    def offer(self, listener: Listener) -> None:
        """Offer ``ShareLeader`` and ``RecordLog``."""
        self._service.offer_on(listener)

    async def start(self, member: ClusterMember) -> None:
        """Claim what is assigned to this process."""
        self._claims = PartitionClaims(
            self._around.coordination,
            member,
            self._around.view,
            self._around.clock,
            host=self._service,
            settings=ClaimSettings(
                drain_ms=self._around.settings.drain_timeout_ms,
                unanswered_max_ms=self._around.storage.unanswered_max_ms,
            ),
        )
        await self._claims.start()

    async def drain(self) -> None:
        """Let holders acknowledge and give every topic-partition up."""
        if self._claims is not None:
            await self._claims.drain()
            await self._service.until_told()

    async def close(self) -> None:
        """Stop claiming partitions and relinquish what is left."""
        if self._claims is not None:
            await self._claims.close()
        await self._service.close()
        await self._persister.close()


def leader_settings(
    max_share_sessions: int, *, callers_have_names: bool, kafka_clients_have_names: bool = False
) -> LeaderSettings:
    """Return the settings of a leader; without names all clients are one principal.

    Each principal may have ``max_share_sessions``; where there are several, as many are kept for
    the others (BND-16). Without names one may have all that waits to be sent (BND-3).
    """
    settings = LeaderSettings(
        max_share_sessions=max_share_sessions, max_principal_sessions=max_share_sessions
    )
    if callers_have_names or kafka_clients_have_names:
        settings = replace(settings, max_share_sessions=2 * max_share_sessions)
    if not callers_have_names:
        settings = replace(settings, max_principal_unsent_bytes=settings.max_unsent_bytes)
    return settings
