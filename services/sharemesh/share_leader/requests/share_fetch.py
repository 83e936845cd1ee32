"""ShareFetch and ShareAcknowledge: the unary requests of a session (spec REQ, SES, DF)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sharemesh.authorization.refusals import hear_bound
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import MemberId, TopicPartition
from sharemesh.domain.share_session import FINAL_EPOCH, INITIAL_EPOCH, FetchContext, SessionKey
from sharemesh.ports.network import AnswerRoom, CallContext
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.failures import Outcome
from sharemesh.share_leader.pacing import LeaderPacing
from sharemesh.share_leader.partition.led_partitions import Redirects
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner
from sharemesh.share_leader.requests.access import LeaderAccess, PartitionLookup, Reader
from sharemesh.share_leader.requests.acknowledgements import (
    AcknowledgeCaller,
    Acknowledgements,
    PendingAcknowledgements,
    check_size,
)
from sharemesh.share_leader.requests.acquisition import FetchAcquisition, FetchOrder, PartitionFetch
from sharemesh.share_leader.requests.delayed_share_fetch import DelayedShareFetch
from sharemesh.share_leader.requests.fetch_response import FetchResponse, acknowledged_topics
from sharemesh.share_leader.requests.request_checks import (
    RequestChecks,
    acquire_mode,
    listed,
    named,
    version_of,
)
from sharemesh.share_leader.requests.share_session_cache import ShareSessionCache
from sharemesh.share_leader.unpacking import Unpacking, most_records
from sharemesh.share_leader.unsent import UnsentBudget
from sharemesh.telemetry import names
from sharemesh.v1 import share_leader_pb2 as pb


@dataclass(frozen=True, slots=True)
class SessionServices:
    """The parts of the leader that requests and streams of share sessions work with."""

    environment: LeaderEnvironment
    access: LeaderAccess
    checks: RequestChecks
    session_cache: ShareSessionCache
    sources: PartitionLookup
    acquisition: FetchAcquisition
    acknowledgements: Acknowledgements
    unsent: UnsentBudget
    pacing: LeaderPacing
    unpacking: Unpacking


class ShareFetch:
    """Answers ShareFetch."""

    def __init__(self, services: SessionServices) -> None:
        self._environment = services.environment
        self._access = services.access
        self._checks = services.checks
        self._session_cache = services.session_cache
        self._sources = services.sources
        self._acquisition = services.acquisition
        self._acknowledgements = services.acknowledgements
        self._pacing = services.pacing
        self._unpacking = services.unpacking
        self._waiting = 0

    async def __call__(
        self, request: pb.ShareFetchRequest, context: CallContext
    ) -> pb.ShareFetchResponse:
        """Answer one request; errors are in the body."""
        try:
            return await self._answer(request, context)
        except RefusedError as refused:
            hear_bound(refused, context.principal)
            if refused.error is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
                await self._environment.clock.sleep_ms(self._wait_ms(request))  # spec REQ-4
            return pb.ShareFetchResponse(
                error_code=int(refused.error), error_message=refused.message
            )

    async def _answer(
        self, request: pb.ShareFetchRequest, context: CallContext
    ) -> pb.ShareFetchResponse:
        key = self._checks.member(context.principal, request.group_id, request.member_id)
        version = version_of(request.version)
        _check_renew(request)
        order = self._order(request, version)
        has_acknowledgements = check_size(request.topics, self._environment) > 0
        wanted = listed(request.topics)
        fetch = self._session(
            request, wanted, key, context.principal, has_acknowledgements=has_acknowledgements
        )
        self._session_cache.request_begins(fetch.session)
        acknowledged = request.topics if has_acknowledgements else ()
        try:
            return await self._in_session(request, wanted, context, fetch, order, acknowledged)
        finally:
            self._session_cache.request_ends(fetch.session)

    def _session(
        self,
        request: pb.ShareFetchRequest,
        wanted: Sequence[TopicPartition],
        key: SessionKey,
        principal: str,
        *,
        has_acknowledgements: bool,
    ) -> FetchContext:
        most = self._environment.settings.max_partitions_per_request
        opens = request.share_session_epoch == INITIAL_EPOCH
        self._session_cache.check_room(
            None if opens else self._session_cache.session_of(key), wanted
        )
        fetch = self._session_cache.sessions.for_fetch(
            key,
            principal,
            request.share_session_epoch,
            listed=wanted,
            forgotten=named(request.forgotten_topics_data, most),
            has_acknowledgements=has_acknowledgements,
        )
        if fetch.is_initial:
            self._session_cache.began(fetch.session)
        return fetch

    async def _in_session(
        self,
        request: pb.ShareFetchRequest,
        wanted: Sequence[TopicPartition],
        context: CallContext,
        fetch: FetchContext,
        order: FetchOrder,
        acknowledged: Iterable[pb.AcknowledgeTopic],
    ) -> pb.ShareFetchResponse:
        key = fetch.session.key
        who = AcknowledgeCaller(
            context.principal,
            key.group_id,
            key.member_id,
            version_of(request.version),
            request.is_renew_ack,
        )
        reader = Reader(self._access, context.principal, key.group_id)
        acknowledging = await self._acknowledgements.begin(who, acknowledged)
        told = pb.ShareFetchResponse()
        response = FetchResponse(told, self._environment.view, context.batches)
        must_appear = fetch.must_appear()
        if not fetch.is_final and not request.is_renew_ack:
            wait_ms = await self._turn(request, reader, patient=not acknowledging)
            if wait_ms is not None:
                answer, clock = context.answer, self._environment.clock
                if answer is not None:
                    began_ms = clock.now_ms()
                    await answer.until_room(wait_ms)
                    wait_ms = max(0, wait_ms - (clock.now_ms() - began_ms))
                await self._fetch(request, reader, fetch, order, response, wait_ms, answer)
            for partition in must_appear:
                response.entry(partition)
        await self._add_acknowledged(acknowledging, () if fetch.is_final else wanted, response)
        self._withhold(reader, fetch, response)
        if fetch.is_final:
            # REQ-10: the release continues in the background; its result is not in the response.
            self._session_cache.close_soon(fetch.session)
        told.throttle_time_ms = self._pacing.throttle_ms(context.principal, key.group_id)
        told.acquisition_lock_timeout_ms = self._lock_duration_ms(key)
        told.node_endpoints.extend(response.endpoints())
        return told

    async def _turn(
        self, request: pb.ShareFetchRequest, reader: Reader, *, patient: bool
    ) -> int | None:
        """Return how long to wait for records; None: a quota lets nothing be got (QUO-9)."""
        wait_ms = self._wait_ms(request)
        whose = (reader.principal, reader.group_id)
        if self._pacing.is_open(*whose):
            return wait_ms
        settings, clock = self._environment.settings, self._environment.clock
        if not patient or self._waiting >= settings.max_waiting_fetches:
            return None
        began_ms = clock.now_ms()
        self._waiting += 1
        try:
            hold_ms = max(wait_ms, settings.max_throttle_hold_ms)
            opened = await self._pacing.until_open(*whose, began_ms + hold_ms)
        finally:
            self._waiting -= 1
        return max(0, wait_ms - (clock.now_ms() - began_ms)) if opened else None

    async def _fetch(
        self,
        request: pb.ShareFetchRequest,
        reader: Reader,
        fetch: FetchContext,
        order: FetchOrder,
        response: FetchResponse[pb.ShareFetchResponse],
        wait_ms: int,
        answer: AnswerRoom | None,
    ) -> None:
        partitions = fetch.to_fetch()
        runners, refused = await self._found(reader, partitions, response)
        taken: list[PartitionFetch] = []
        wait: DelayedShareFetch | None = None
        if runners and order.max_records > 0 and order.max_bytes > 0:  # spec REQ-13
            wait = DelayedShareFetch(
                runners,
                min_bytes=min(max(0, request.min_bytes), order.max_bytes),
                max_bytes=order.max_bytes,
                known_errors=fetch.session.failed,
            )
            kept = await self._wait(wait, wait_ms)
            locked = self._environment.telemetry.registry.histogram(
                names.FETCH_PARTITIONS_LOCKED, reader.group_id
            )
            locked.record(100 * len(kept) / len(partitions))
            taken = await self._taken(request, kept, wait, order, reader, answer, response)
        failed = {
            runner.key.topic_partition: (runner.error, runner.message)
            for runner in runners
            if runner.phase is Phase.ENDED
        }
        if wait is not None:
            failed.update(wait.failed)
        response.add_errors(failed)
        self._note(fetch, partitions, taken, [*refused, *failed])

    async def _taken(
        self,
        request: pb.ShareFetchRequest,
        kept: list[SharePartitionRunner],
        wait: DelayedShareFetch,
        order: FetchOrder,
        reader: Reader,
        answer: AnswerRoom | None,
        response: FetchResponse[pb.ShareFetchResponse],
    ) -> list[PartitionFetch]:
        """Acquire, and put it into the answer; return what there is to tell."""
        async with self._unpacking.answer(
            request.record_format, reader.principal, order.max_bytes, _room_of(answer)
        ) as opened:
            order = replace(order, opened=opened)
            taken = await self._take(kept, wait, order, reader, answer)
            taken = [one for one in taken if one.ranges or one.error]
            for one in taken:
                await response.add_taken(one, opened)
        if opened is not None and opened.lacks_room and not taken:
            await self._environment.clock.sleep_ms(self._environment.settings.no_room_pause_ms)
        return taken

    async def _take(
        self,
        kept: list[SharePartitionRunner],
        wait: DelayedShareFetch,
        order: FetchOrder,
        reader: Reader,
        answer: AnswerRoom | None,
    ) -> list[PartitionFetch]:
        """Acquire what has room in the answer; nothing without room (BND-33)."""
        if answer is None or not kept:
            return await self._acquisition.take(kept, wait, order, reader)
        set_aside, size = answer.take(order.max_bytes), 0
        if not set_aside:
            for runner in kept:
                runner.unlock(wait)
            return []
        order = replace(order, max_bytes=set_aside)
        if order.opened is not None:
            order.opened.bytes_max = set_aside
        try:
            taken = await self._acquisition.take(kept, wait, order, reader)
            size = sum(len(one.records) for one in taken)
            if order.opened is not None:
                size = min(set_aside, order.opened.bytes)
            return taken
        finally:
            answer.give_back(set_aside - size)

    async def _found(
        self,
        reader: Reader,
        partitions: Sequence[TopicPartition],
        response: FetchResponse[pb.ShareFetchResponse],
    ) -> tuple[list[SharePartitionRunner], dict[TopicPartition, Outcome]]:
        """Return the share partitions led here, and why others are refused, which is told."""
        runners: list[SharePartitionRunner] = []
        refused: dict[TopicPartition, Outcome] = {}
        clock = self._environment.clock
        async for here, elsewhere in self._sources.find_in_slices(reader, partitions, clock):
            response.add_errors(elsewhere)
            runners += here
            refused |= elsewhere
        return runners, refused

    def _withhold(
        self, reader: Reader, fetch: FetchContext, response: FetchResponse[pb.ShareFetchResponse]
    ) -> None:
        """Hand out nothing whose right went while the request waited (AUT-4).

        Raises:
            RefusedError: GROUP_AUTHORIZATION_FAILED; the session is over, its records released.
        """
        lost = reader.lost(response.with_records())
        if lost:
            self._session_cache.give_up(fetch.session, response.withhold_lost(lost), lost)
        try:
            reader.check_group()
        except RefusedError:
            self._session_cache.close_soon(fetch.session)
            raise

    async def _wait(self, wait: DelayedShareFetch, wait_ms: int) -> list[SharePartitionRunner]:
        if wait_ms <= 0 or self._waiting >= self._environment.settings.max_waiting_fetches:
            return wait.try_now(at_deadline=True) or []
        self._waiting += 1
        try:
            deadline_ms = self._environment.clock.now_ms() + wait_ms
            return await wait.until(deadline_ms, self._environment.alarms)
        finally:
            self._waiting -= 1
            self._environment.counters.fetches_expired += wait.expired

    def _note(
        self,
        fetch: FetchContext,
        partitions: Iterable[TopicPartition],
        taken: Iterable[PartitionFetch],
        failed: list[TopicPartition],
    ) -> None:
        failed += [one.partition for one in taken if one.error]
        moved = [] if fetch.is_initial else [one.partition for one in taken if not one.error]
        fetch.session.answered(with_records=moved, with_error=failed)
        counters = self._environment.counters
        topic = self._environment.view.topic  # ids that are none are not counted: there is no end
        asked = {p.topic_id for p in partitions}
        counters.fetch_requests.update(each for each in asked if topic(each))
        wrong = {p.topic_id for p in failed}
        counters.failed_fetch_requests.update(each for each in wrong if topic(each))

    async def _add_acknowledged(
        self,
        acknowledging: PendingAcknowledgements,
        also: Iterable[TopicPartition],
        response: FetchResponse[pb.ShareFetchResponse],
    ) -> None:
        """Add the results; ``also`` lists partitions that appear beside them (spec REQ-8)."""
        if not acknowledging:
            return
        outcomes = await self._acknowledgements.finish(acknowledging)
        for partition in also:
            response.entry(partition)
        for partition, outcome in outcomes.items():
            response.add_acknowledged(partition, outcome)

    def _order(self, request: pb.ShareFetchRequest, version: int) -> FetchOrder:
        settings = self._environment.settings
        max_bytes = min(request.max_bytes, settings.max_fetch_bytes, settings.max_response_bytes)
        max_records = most_records(request.record_format, settings)
        return FetchOrder(
            member_id=MemberId(request.member_id),
            mode=acquire_mode(request.share_acquire_mode, version),
            batch_size=max(1, request.batch_size),
            max_records=min(request.max_records, max_records),
            max_bytes=max_bytes,
        )

    def _wait_ms(self, request: pb.ShareFetchRequest) -> int:
        return min(max(0, request.max_wait_ms), self._environment.settings.max_fetch_wait_ms)

    def _lock_duration_ms(self, key: SessionKey) -> int:
        return self._environment.view.group_config(key.group_id).record_lock_duration_ms


class ShareAcknowledge:
    """Answers ShareAcknowledge, once all of it is durable."""

    def __init__(self, services: SessionServices) -> None:
        self._environment = services.environment
        self._checks = services.checks
        self._session_cache = services.session_cache
        self._acknowledgements = services.acknowledgements

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
        # it advances the session, so it comes last (spec SES-10)
        session = self._session_cache.sessions.for_acknowledge(key, context.principal, epoch)
        who = AcknowledgeCaller(
            context.principal, key.group_id, key.member_id, version, request.is_renew_ack
        )
        self._session_cache.request_begins(session)
        try:
            under_way = await self._acknowledgements.begin(who, request.topics)
            outcomes = await self._acknowledgements.finish(under_way)
        finally:
            self._session_cache.request_ends(session)
        if epoch == FINAL_EPOCH:
            self._session_cache.close_soon(session)
        redirects = Redirects(self._environment.view)
        config = self._environment.view.group_config(key.group_id)
        return pb.ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=config.record_lock_duration_ms,
            responses=acknowledged_topics(outcomes, redirects),
            node_endpoints=redirects.endpoints(),
        )


def _room_of(answer: AnswerRoom | None) -> Callable[[int], bool]:
    """Return what sets aside more of what answers may take, all that is asked for or nothing."""

    def has_room(size: int) -> bool:
        taken = size if answer is None else answer.take(size)
        if answer is not None and taken < size:
            answer.give_back(taken)
        return taken >= size

    return has_room


def _check_renew(request: pb.ShareFetchRequest) -> None:
    """Spec REQ-1, step 5: a renewal fetches nothing and says so."""
    version = version_of(request.version)
    if not request.is_renew_ack:
        return
    if version < 2:
        raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, "is_renew_ack needs version 2")
    if request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms:
        raise invalid_request(
            "a fetch with is_renew_ack must have max_bytes, min_bytes, max_records and "
            "max_wait_ms 0"
        )
