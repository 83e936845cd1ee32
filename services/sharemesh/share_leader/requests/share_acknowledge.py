"""ShareAcknowledge: acknowledgements without a fetch (spec REQ-2, SES-9)."""

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.share_session import FINAL_EPOCH
from sharemesh.ports.network import CallContext
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.requests.acknowledgements import (
    AcknowledgeCaller,
    Acknowledgements,
    check_size,
)
from sharemesh.share_leader.requests.fetch_response import acknowledged_topics
from sharemesh.share_leader.requests.redirects import Redirects
from sharemesh.share_leader.requests.request_checks import RequestChecks, listed, version_of
from sharemesh.share_leader.requests.share_session_cache import ShareSessionCache
from sharemesh.v1 import share_leader_pb2 as pb


class ShareAcknowledge:
    """Answers ShareAcknowledge, once all of it is durable."""

    def __init__(
        self,
        environment: LeaderEnvironment,
        checks: RequestChecks,
        book: ShareSessionCache,
        acknowledgements: Acknowledgements,
    ) -> None:
        self._environment = environment
        self._checks = checks
        self._book = book
        self._acknowledgements = acknowledgements

    async def __call__(
        self, request: pb.ShareAcknowledgeRequest, context: CallContext
    ) -> pb.ShareAcknowledgeResponse:
        """Answer one request; errors are in the body."""
        try:
            return await self._answer(request, context)
        except RefusedError as refused:
            return pb.ShareAcknowledgeResponse(
                error_code=int(refused.error), error_message=refused.message
            )

    async def _answer(
        self, request: pb.ShareAcknowledgeRequest, context: CallContext
    ) -> pb.ShareAcknowledgeResponse:
        key = self._checks.member(context.principal, request.group_id, request.member_id)
        version = version_of(request.version)
        epoch = request.share_session_epoch
        check_size(request.topics, self._environment)
        listed(request.topics)  # topic ids are well-formed
        session = self._book.sessions.for_acknowledge(key, epoch)  # advances: last (spec SES-10)
        who = AcknowledgeCaller(
            context.principal, key.group_id, key.member_id, version, request.is_renew_ack
        )
        self._book.request_begins(session)
        try:
            under_way = self._acknowledgements.begin(who, request.topics)
            outcomes = await self._acknowledgements.finish(under_way)
        finally:
            self._book.request_ends(session)
        if epoch == FINAL_EPOCH:
            self._book.close_soon(session)
        redirects = Redirects(self._environment.view)
        config = self._environment.view.group_config(key.group_id)
        return pb.ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=config.record_lock_duration_ms,
            responses=acknowledged_topics(outcomes, redirects),
            node_endpoints=redirects.endpoints(),
        )
