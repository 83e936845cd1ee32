"""Settings of groups: Kafka's clients ask any process, and their coordinator answers."""

from collections.abc import Sequence

from sharemesh import methods
from sharemesh.authorization.access import Access
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, NodeId
from sharemesh.kafka_listener.failures import code_of, heartbeat_code
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.kafka_listener.translation.configs import Changes, Refused
from sharemesh.methods import Method, Request, Response
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.network import CallContext, Caller, CallFailedError, Failure, Listener
from sharemesh.v1 import group_coordinator_pb2 as pb
from sharemesh.v1.common_pb2 import ConfigEntry

COORDINATOR_WAIT_MS = 5_000
"""How long a request waits for the group's coordinator to be elected."""

_NO_ANSWER = frozenset({Failure.UNAVAILABLE, Failure.DEADLINE_EXCEEDED})

SilentShards = dict[int, None]
"""Shards whose coordinator did not answer one request: its other groups need not wait for it."""


class GroupConfigCalls:
    """Asks the coordinator of each group; without a state."""

    def __init__(
        self,
        handlers: OfferedHandlers,
        elsewhere: OfferedHandlers,
        view: ClusterView,
        node_id: NodeId,
        caller: Caller,
        access: Access,
    ) -> None:
        """``elsewhere`` is asked about groups of other processes, once ``offer`` has filled it."""
        self._handlers = handlers
        self._elsewhere = elsewhere
        self._view = view
        self._node_id = node_id
        self._caller = caller
        self._access = access

    def offer(self, listener: Listener) -> None:
        """Offer what asks another process, so that it is audited as what is answered here."""
        listener.offer(methods.DESCRIBE_GROUP_CONFIGS, self._describe_elsewhere)
        listener.offer(methods.ALTER_GROUP_CONFIGS, self._alter_elsewhere)

    async def describe(
        self, group_id: str, context: CallContext, silent: SilentShards
    ) -> Sequence[ConfigEntry] | Refused:
        """Return a group's settings in force, or why not."""
        request = pb.DescribeGroupConfigsRequest(group_ids=[group_id])
        method = methods.DESCRIBE_GROUP_CONFIGS
        try:
            response = await self._ask(method, request, GroupId(group_id), context, silent)
        except RefusedError as error:
            return Refused(heartbeat_code(error.error), error.message)
        [found] = response.results
        if found.error_code:
            return Refused(heartbeat_code(found.error_code), found.error_message)
        return found.configs

    async def alter(
        self,
        group_id: str,
        changes: Changes,
        context: CallContext,
        silent: SilentShards,
        *,
        validate_only: bool,
    ) -> Refused | None:
        """Change settings of a group, all or none; return why not."""
        request = pb.AlterGroupConfigsRequest(
            group_id=group_id,
            configs=[pb.AlterGroupConfig(name=name, value=changes[name]) for name in changes],
            validate_only=validate_only,
        )
        method = methods.ALTER_GROUP_CONFIGS
        try:
            response = await self._ask(method, request, GroupId(group_id), context, silent)
        except RefusedError as error:
            return Refused(heartbeat_code(error.error), error.message)
        if response.error_code:
            return Refused(heartbeat_code(response.error_code), response.error_message)
        return None

    async def _ask(
        self,
        method: Method[Request, Response],
        request: Request,
        group_id: GroupId,
        context: CallContext,
        silent: SilentShards,
    ) -> Response:
        """Return the coordinator's answer.

        Raises:
            RefusedError: There is no answer.
        """
        shard = self._view.group_shard(group_id)
        if shard not in silent:
            await self._view.wait_for(
                lambda: self._view.group_coordinator(shard) is not None,
                timeout_ms=COORDINATOR_WAIT_MS,
            )
        coordinator = self._view.group_coordinator(shard)
        if coordinator is None or shard in silent:
            silent[shard] = None
            raise RefusedError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"group {group_id[:100]!r} has no coordinator that answers now; try again",
            )
        is_here = coordinator.node_id == self._node_id
        try:
            handlers = self._handlers if is_here else self._elsewhere
            return await handlers.call(method, request, context)
        except CallFailedError as error:
            if error.failure in _NO_ANSWER:
                silent[shard] = None
            code = code_of(error, ErrorCode.NOT_COORDINATOR)
            raise RefusedError(code, error.message) from error

    # ---- other processes, asked in this one's name: the caller's right is looked at here ---------

    async def _describe_elsewhere(
        self, request: pb.DescribeGroupConfigsRequest, context: CallContext
    ) -> pb.DescribeGroupConfigsResponse:
        [group_id] = request.group_ids
        try:
            self._access.group(context.principal, Operation.DESCRIBE_CONFIGS, group_id)
        except RefusedError as error:
            code, why = error.error, error.message
            result = pb.DescribedGroupConfigs(group_id=group_id, error_code=code, error_message=why)
            return pb.DescribeGroupConfigsResponse(results=[result])
        return await self._pass_on(methods.DESCRIBE_GROUP_CONFIGS, request, GroupId(group_id))

    async def _alter_elsewhere(
        self, request: pb.AlterGroupConfigsRequest, context: CallContext
    ) -> pb.AlterGroupConfigsResponse:
        try:
            self._access.group(context.principal, Operation.ALTER_CONFIGS, request.group_id)
        except RefusedError as error:
            code, why = error.error, error.message
            return pb.AlterGroupConfigsResponse(error_code=code, error_message=why)
        return await self._pass_on(methods.ALTER_GROUP_CONFIGS, request, GroupId(request.group_id))

    async def _pass_on(
        self, method: Method[Request, Response], request: Request, group_id: GroupId
    ) -> Response:
        coordinator = self._view.group_coordinator(self._view.group_shard(group_id))
        if coordinator is None:
            raise CallFailedError(Failure.UNAVAILABLE, "the group has lost its coordinator")
        return await self._caller.call(method, request, to=coordinator.address)
