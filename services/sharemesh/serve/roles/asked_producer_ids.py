"""InitProducerId where no share leader is: clients of Kafka ask any process for a producer id."""

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.cluster import ClusterView, Role
from sharemesh.ports.network import Caller, CallFailedError, Listener
from sharemesh.serve.process_context import ProcessContext, RoleService
from sharemesh.share_leader.requests.access import LeaderAccess
from sharemesh.share_leader.requests.record_log import InitProducerId
from sharemesh.v1 import record_log_pb2 as pb


class AskedProducerIds:
    """Fills ``ports.record_log.ProducerIds`` by a share leader."""

    def __init__(self, caller: Caller, view: ClusterView) -> None:
        self._caller = caller
        self._view = view

    async def allocate(self) -> int:
        """Return an id that was never given out before.

        Raises:
            RefusedError: COORDINATOR_LOAD_IN_PROGRESS where no share leader answers, or its code.
        """
        leaders = [each for each in self._view.nodes() if Role.SHARE_LEADER in each.roles]
        leader = next((each for each in leaders if not each.draining), None)
        if leader is None:
            raise _not_now("no share leader is there")
        try:
            answer = await self._caller.call(
                methods.INIT_PRODUCER_ID,
                pb.InitProducerIdRequest(producer_id=-1, producer_epoch=-1),
                to=leader.address,
            )
        except CallFailedError as error:
            raise _not_now(error.message) from error
        if answer.error_code:
            raise _not_now(answer.error_message)
        return int(answer.producer_id)


class ProducerIdRole(RoleService):
    """The right is looked at here, under who asks; the id is the leader's."""

    def __init__(self, around: ProcessContext) -> None:
        ids = AskedProducerIds(around.caller, around.view)
        access = LeaderAccess(around.authorizer, around.view)
        self._answer = InitProducerId(ids, access, around.clock)

    def offer(self, listener: Listener) -> None:
        """Offer ``InitProducerId``."""
        listener.offer(methods.INIT_PRODUCER_ID, self._answer)


def _not_now(why: str) -> RefusedError:
    return RefusedError(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer id now: {why}; try again"
    )
