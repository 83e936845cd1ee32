"""The share coordinator service: RPCs of key 83 to 87 and CommitGeneration (spec SC)."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from sharemesh import methods
from sharemesh.authorization.access import Access
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.checks import StateResult, check_key
from sharemesh.domain.share_state.hand_overs import HandOvers
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import StateRecord
from sharemesh.ports.authorizer import Authorizer, Operation
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.network import CallContext, CallFailedError, Failure, Listener
from sharemesh.ports.shard_log import ShardLogs
from sharemesh.runtime.shard import TO_NEXT_PERIOD
from sharemesh.runtime.shard_kind import Decision
from sharemesh.runtime.shard_set import ShardSet
from sharemesh.share_coordinator import messages
from sharemesh.share_coordinator.generations import (
    GenerationReader,
    asked_generation,
    commit_generation,
)
from sharemesh.share_coordinator.hand_over_waits import HandOverWaits
from sharemesh.share_coordinator.history_search import Found, HistorySearch
from sharemesh.share_coordinator.maintenance import Maintenance, TopicWatch
from sharemesh.share_coordinator.messages import Decide, PartitionRequest
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.share_coordinator.shard_kind import StateShard, state_shard_kind
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh.v1 import share_coordinator_pb2 as pb

_KNOWN_KEYS_MAX = 100_000  # shards of keys are remembered: the number of shards is fixed


class ShareCoordinatorService:
    """Serves the state shards that it is given through ``shards`` (a ``ports.cluster.ShardHost``).

    Each request fans out over its share partitions; an error of one leaves the others intact
    (spec SC-4, SC-8). Nothing is answered before it is committed (SC-23).
    """

    def __init__(
        self,
        view: ClusterView,
        clock: Clock,
        shard_logs: ShardLogs,
        settings: ShareCoordinatorSettings,
        *,
        authorizer: Authorizer | None = None,
        generations: GenerationReader | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Without an ``authorizer`` everything is allowed."""
        self._view = view
        self._clock = clock
        self._settings = settings
        self._access = None if authorizer is None else Access(authorizer)
        self._active = False
        self._upkeep: dict[int, Maintenance] = {}
        self._shards_of: dict[SharePartitionKey, int] = {}
        self.shards = ShardSet(
            state_shard_kind(settings, generations),
            shard_logs,
            clock,
            settings.runtime,
            on_loaded=self._loaded,
            on_stopping=self._until_handed_on,
            telemetry=telemetry,
        )
        self._hand_overs = HandOvers()
        self._hand_over_waits = HandOverWaits(settings.hand_over_wait_ms)
        self._history = HistorySearch(clock, settings)
        self._topics = TopicWatch(view, self._topics_gone, self._topics_come)

    def offer(self, listener: Listener) -> None:
        """Offer the methods of ``ShareCoordinator``."""
        listener.offer(methods.INITIALIZE_SHARE_GROUP_STATE, self.initialize)
        listener.offer(methods.READ_SHARE_GROUP_STATE, self.read)
        listener.offer(methods.WRITE_SHARE_GROUP_STATE, self.write)
        listener.offer(methods.DELETE_SHARE_GROUP_STATE, self.delete)
        listener.offer(methods.READ_SHARE_GROUP_STATE_SUMMARY, self.read_summary)
        listener.offer(methods.READ_SHARE_RECORD_HISTORY, self.read_history)
        listener.offer(methods.COMMIT_GENERATION, self.commit_generation)

    def start(self) -> None:
        """Begin to serve; before that every share partition is answered with 15 (spec SC-5)."""
        self._active = True
        self._topics.start()

    async def close(self) -> None:
        """Give all shards up and refuse what still comes."""
        self._active = False
        self._topics.close()
        await self.shards.close()

    # ---- the RPCs -------------------------------------------------------------------------------

    async def initialize(
        self, request: pb.InitializeShareGroupStateRequest, context: CallContext
    ) -> pb.InitializeShareGroupStateResponse:
        """Begin a state epoch of share partitions (spec SC-9)."""
        asked = await self._ask(request.group_id, request.topics, messages.initialize, context)
        return pb.InitializeShareGroupStateResponse(results=messages.errors(asked))

    async def read(
        self, request: pb.ReadShareGroupStateRequest, context: CallContext
    ) -> pb.ReadShareGroupStateResponse:
        """Return state and raise the leader epoch (spec SC-10)."""
        asked = await self._ask(request.group_id, request.topics, messages.read, context)
        return pb.ReadShareGroupStateResponse(
            results=messages.read_results(asked, self._settings.part_batches)
        )

    async def write(
        self, request: pb.WriteShareGroupStateRequest, context: CallContext
    ) -> pb.WriteShareGroupStateResponse:
        """Record delivery states (spec SC-13)."""
        asked = await self._ask(request.group_id, request.topics, messages.write, context)
        return pb.WriteShareGroupStateResponse(results=messages.errors(asked))

    async def delete(
        self, request: pb.DeleteShareGroupStateRequest, context: CallContext
    ) -> pb.DeleteShareGroupStateResponse:
        """Delete state (spec SC-19)."""
        asked = await self._ask(request.group_id, request.topics, messages.delete, context)
        return pb.DeleteShareGroupStateResponse(results=messages.errors(asked))

    async def read_summary(
        self, request: pb.ReadShareGroupStateSummaryRequest, context: CallContext
    ) -> pb.ReadShareGroupStateSummaryResponse:
        """Return state without batches; changes nothing (spec SC-20)."""
        asked = await self._ask(request.group_id, request.topics, messages.summary, context)
        return pb.ReadShareGroupStateSummaryResponse(results=messages.summary_results(asked))

    async def read_history(
        self, request: pb.ReadShareRecordHistoryRequest, context: CallContext
    ) -> pb.ReadShareRecordHistoryResponse:
        """Return what became of single records, as far as it is kept; changes nothing."""
        self._check_count(request.topics, self._settings.history_requests)
        asked = await self._ask(request.group_id, request.topics, messages.history, context)
        found: dict[int, Found] = {}
        for each in (each for _, partitions in asked for each in partitions):
            if each.answer.error is ErrorCode.NONE:
                found[id(each)] = await self._search(each)
        return pb.ReadShareRecordHistoryResponse(results=messages.history_results(asked, found))

    async def _search(self, asked: PartitionRequest) -> Found:
        try:
            shard = self.shards.shard(self._shard_of(asked.key))
        except RefusedError as refused:  # it moved just now
            return Found(problem=refused.message)
        return await self._history.events(shard, asked.key, asked.item.offset, asked.item.principal)

    async def commit_generation(
        self, request: pb.CommitGenerationRequest, context: CallContext
    ) -> pb.CommitGenerationResponse:
        """Commit the pointer to a generation of one shard."""
        try:
            refusal = self._refusal(context)
            if refusal is not None:
                raise RefusedError(refusal.error, refusal.message)
            shard = self.shards.shard(request.shard)
            asked = asked_generation(request, now_ms=self._clock.wall_ms())
            await shard.write(
                lambda machine: commit_generation(
                    machine,
                    asked,
                    log_start=shard.log_start_offset,
                    committed_end=shard.committed_end_offset,
                )
            )
        except RefusedError as refused:
            return pb.CommitGenerationResponse(
                error_code=refused.error, error_message=refused.message
            )
        return pb.CommitGenerationResponse()

    # ---- fan-out --------------------------------------------------------------------------------

    async def _ask(
        self, group_id: str, topics: Sequence[Any], decide: Decide, context: CallContext
    ) -> list[tuple[bytes, list[PartitionRequest]]]:
        """Put each share partition to its shard; return them grouped as asked.

        Raises:
            CallFailedError: RESOURCE_EXHAUSTED; there are too many to answer each of them.
        """
        if not group_id:
            return []  # spec SC-4
        self._check_count(topics, self._settings.requested_partitions)
        grouped = [
            (
                topic.topic_id,
                [
                    PartitionRequest(
                        SharePartitionKey(GroupId(group_id), topic.topic_id, item.partition), item
                    )
                    for item in topic.partitions
                ],
            )
            for topic in topics
            if topic.partitions
        ]
        everything = [asked for _, partitions in grouped for asked in partitions]
        refusal = self._refusal(context)
        if refusal is not None:
            for asked in everything:
                asked.answer = refusal
        else:
            await self._ask_all(everything, decide)
        return grouped

    def _check_count(self, topics: Sequence[Any], bound: int) -> None:
        count = max(len(topics), sum(len(topic.partitions) for topic in topics[:bound]))
        if count > bound:
            raise CallFailedError(
                Failure.RESOURCE_EXHAUSTED,
                f"{count} topics or share partitions in one request; ask for at most {bound}",
            )

    async def _ask_all(self, everything: Sequence[PartitionRequest], decide: Decide) -> None:
        valid: list[PartitionRequest] = []
        for asked in everything:
            stop = check_key(asked.key)
            if stop is None:
                valid.append(asked)
            else:
                asked.answer = stop.answer
        if not self._all_in_metadata(valid):
            await self._view.wait_for(
                lambda: self._all_in_metadata(valid), timeout_ms=self._settings.metadata_wait_ms
            )
        if decide is messages.read:
            await self._await_last_writes(valid)
        parts = self._by_shard(valid)
        if len(parts) == 1:
            await self._ask_shard(*parts[0], decide)
        else:
            await asyncio.gather(*(self._ask_shard(*part, decide) for part in parts))

    async def _await_last_writes(self, everything: Sequence[PartitionRequest]) -> None:
        """Wait for leaders that are about to hand over to who reads (HND-13)."""
        awaited = [each.key for each in everything if self._is_last_write_due(each)]
        if awaited:
            await self._hand_over_waits.until_decided(awaited)

    def _is_last_write_due(self, asked: PartitionRequest) -> bool:
        """Whether the leader that hands over was the last one to read, and has not ended yet."""
        epoch = asked.item.handing_over_epoch
        if epoch <= 0 or asked.item.leader_epoch <= epoch:
            return False
        try:
            shard = self.shards.shard(self._shard_of(asked.key))
        except RefusedError:
            return False
        state = shard.peek(lambda machine: machine.state(asked.key))
        is_last = state is not None and state.leader_epoch_max == epoch
        return is_last and not self._hand_overs.has_ended(asked.key, epoch)

    async def _until_handed_on(self, shard: StateShard) -> None:
        """Serve until locks that are kept here have gone to their next leaders (HND-14)."""

        def is_awaited() -> bool:
            keys = [*self._hand_overs.awaited(self._clock.now_ms()), *self._hand_over_waits.keys()]
            return any(self._shard_of(key) == shard.index for key in keys)

        await self._hand_over_waits.until_none(is_awaited)
        for key in [*self._hand_over_waits.keys()]:
            if self._shard_of(key) == shard.index:
                self._hand_over_waits.decided(key)  # it is asked for elsewhere

    def _by_shard(
        self, everything: Sequence[PartitionRequest]
    ) -> list[tuple[int, list[PartitionRequest]]]:
        """Return what may be decided together: one shard, no key twice, not too many keys."""
        parts: list[tuple[int, list[PartitionRequest]]] = []
        current: dict[int, tuple[list[PartitionRequest], set[SharePartitionKey]]] = {}
        for asked in everything:
            shard = self._shard_of(asked.key)
            found = current.get(shard)
            if (
                found is None
                or asked.key in found[1]
                or len(found[0]) >= self._settings.keys_per_decision
            ):
                found = current[shard] = ([], set())
                parts.append((shard, found[0]))
            found[0].append(asked)
            found[1].add(asked.key)
        return parts

    def _shard_of(self, key: SharePartitionKey) -> int:
        shard = self._shards_of.get(key)
        if shard is None:
            if len(self._shards_of) >= _KNOWN_KEYS_MAX:
                self._shards_of.clear()
            shard = self._shards_of[key] = self._view.share_shard(key)
        return shard

    async def _ask_shard(self, index: int, part: list[PartitionRequest], decide: Decide) -> None:
        try:
            shard = self.shards.shard(index)
            answers = await shard.write(partial(self._decided, part=part, decide=decide))
            self._upkeep[index].snapshot_large()
        except RefusedError as refused:
            answers = [_unanswered(refused)] * len(part)
        for asked, answer in zip(part, answers, strict=True):
            asked.answer = answer

    def _decided(
        self, machine: ShareStateMachine, *, part: list[PartitionRequest], decide: Decide
    ) -> Decision[StateRecord, list[StateResult]]:
        now_ms = self._clock.wall_ms()
        records: list[StateRecord] = []
        answers: list[StateResult] = []
        for asked in part:
            outcome = decide(
                machine, asked, in_metadata=self._in_metadata(asked.key), now_ms=now_ms
            )
            answers.append(outcome.answer)
            if messages.hand_over(self._hand_overs, asked, outcome.answer, self._clock.now_ms()):
                self._hand_over_waits.decided(asked.key)
            if outcome.record is not None:
                records.append(outcome.record)
        return Decision(records, answers)

    def _all_in_metadata(self, everything: Sequence[PartitionRequest]) -> bool:
        return all(self._in_metadata(asked.key) for asked in everything)

    def _in_metadata(self, key: SharePartitionKey) -> bool:
        topic = self._view.topic(key.topic_id)
        return topic is not None and key.partition < topic.partitions

    def _refusal(self, context: CallContext) -> StateResult | None:
        if not self._active:
            return StateResult(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "the share coordinator is not started"
            )
        if self._access is not None:
            try:
                self._access.cluster(context.principal, Operation.CLUSTER_ACTION)
            except RefusedError as refused:
                return StateResult(refused.error, refused.message)
        return None

    # ---- upkeep ---------------------------------------------------------------------------------

    def _loaded(self, shard: StateShard) -> None:
        upkeep = Maintenance(shard, self._view, self._clock, self._settings)
        self._upkeep[shard.index] = upkeep
        upkeep.start()

    def _topics_gone(self, topic_ids: frozenset[TopicId]) -> None:
        if self._settings.topic_grace_ms:
            return  # they may come back: upkeep deletes their states in time (KTP-10)
        for shard in self.shards.served():
            upkeep = self._upkeep[shard.index]
            job = upkeep.delete_topics(topic_ids)
            shard.start_job("deleted topics", job, put_off=TO_NEXT_PERIOD)

    def _topics_come(self, topic_ids: frozenset[TopicId]) -> None:
        for shard in self.shards.served():
            self._upkeep[shard.index].topics_come(topic_ids)


def _unanswered(refused: RefusedError) -> StateResult:
    """Return the result for a share partition whose shard refused or did not answer (SC-5)."""
    error = refused.error
    if error is ErrorCode.REQUEST_TIMED_OUT:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return StateResult(error, refused.message)
