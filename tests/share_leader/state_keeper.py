"""Share-partition state in memory behind the persister's port: the coordinator's own machine."""

import asyncio

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_state.checks import WriteRequest
from sharemesh.domain.share_state.hand_overs import HandOvers
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.record_history import RecordHistory
from sharemesh.domain.share_state.records import Origin
from sharemesh.ports.share_state import RecordHistoryResult, StateReadResult, StateWriteResult


class StateKeeper:
    """Initializes what is read for the first time; can hold or refuse answers."""

    def __init__(self, clock):
        self._clock = clock
        self.machine = ShareStateMachine()
        self.hand_overs = HandOvers()
        self.offset = 0
        self.records = []
        self.reads, self.writes = [], []
        self.read_error = ErrorCode.NONE
        self.write_error = ErrorCode.NONE
        self.open = asyncio.Event()
        self.open.set()
        self.written = asyncio.Event()

    def apply(self, outcome):
        if outcome.record is not None:
            self.records.append((self.offset, outcome.record))
            self.machine.apply(outcome.record, self.offset)
            self.offset += 1
        return outcome.answer

    async def read_state(self, key, leader_epoch, handing_over=0):
        self.reads.append((key, leader_epoch))
        await self.open.wait()
        while handing_over and self.is_last_write_due(key, handing_over):
            self.written.clear()
            await self.written.wait()
        if self.read_error:
            return StateReadResult(self.read_error, "told to fail")
        if self.machine.state(key) is None:
            self.initialize(key)
        answer = self.apply(
            self.machine.read(key, leader_epoch, in_metadata=True, now_ms=self._clock.wall_ms())
        )
        state = answer.state
        if answer.error or state is None:
            return StateReadResult(
                answer.error, answer.message, known_leader_epoch=answer.known_leader_epoch
            )
        epochs = (leader_epoch, state.state_epoch, state.leader_epoch_max)
        return StateReadResult(
            ErrorCode.NONE,
            "",
            state.state_epoch,
            state.start_offset,
            tuple(state.batches),
            handed_over=self.hand_overs.take(key, *epochs, self._clock.now_ms()),
            delivery_complete_count=state.delivery_complete_count,
        )

    def is_last_write_due(self, key, epoch):
        state = self.machine.state(key)
        is_last = state is not None and state.leader_epoch_max == epoch
        return is_last and not self.hand_overs.has_ended(key, epoch)

    def initialize(self, key, state_epoch=1, start_offset=-1, batches=()):
        answer = self.apply(
            self.machine.initialize(
                key,
                state_epoch,
                start_offset,
                batches=batches,
                in_metadata=True,
                now_ms=self._clock.wall_ms(),
            )
        )
        assert answer.error is ErrorCode.NONE, answer

    async def write_state(self, key, write):
        self.writes.append((key, write))
        await self.open.wait()
        if self.write_error:
            return StateWriteResult(self.write_error, "told to fail")
        request = WriteRequest(
            write.state_epoch,
            write.leader_epoch,
            write.start_offset,
            write.delivery_complete_count,
            write.batches,
            Origin(write.cause, write.member_id, write.trace_id, write.span_id),
            write.is_recount,
        )
        answer = self.apply(
            self.machine.write(key, request, in_metadata=True, now_ms=self._clock.wall_ms())
        )
        keeps = False
        self.written.set()
        if not answer.error and write.is_last:
            epochs = (write.state_epoch, write.leader_epoch)
            keeps = self.hand_overs.keep(key, epochs, write.hand_over, self._clock.now_ms())
        elif not answer.error:
            self.hand_overs.written(key, write.leader_epoch)
        return StateWriteResult(answer.error, answer.message, keeps_hand_over=keeps)

    async def read_history(self, key, offset, principal, leader_epoch):
        if self.read_error:
            return RecordHistoryResult(self.read_error, "told to fail")
        history = RecordHistory(offset)
        for at, record in self.records:
            if record.key == key:
                history.take(record, at)
        state = self.machine.state(key)
        if state is None:
            return RecordHistoryResult(ErrorCode.NONE, events=history.events)
        batch = next((b for b in state.batches if b.first_offset <= offset <= b.last_offset), None)
        found = (None, 0) if batch is None else (batch.delivery_state, batch.delivery_count)
        epochs = (leader_epoch, state.state_epoch, state.leader_epoch_max)
        return RecordHistoryResult(
            ErrorCode.NONE,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state=found[0],
            delivery_count=found[1],
            events=history.events,
            is_whole=history.is_whole,
            not_before_ms=0 if batch is None else batch.not_before_ms,
            handed_over=self.hand_overs.lock_on(key, offset, *epochs, self._clock.now_ms()),
        )
