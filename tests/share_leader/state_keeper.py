"""Share-partition state in memory behind the persister's port: the coordinator's own machine."""

import asyncio

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_state.answers import WriteRequest
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.ports.share_state import StateReadResult, StateWriteResult


class StateKeeper:
    """Initializes what is read for the first time; can hold or refuse answers."""

    def __init__(self, clock):
        self._clock = clock
        self.machine = ShareStateMachine()
        self.offset = 0
        self.reads, self.writes = [], []
        self.read_error = ErrorCode.NONE
        self.write_error = ErrorCode.NONE
        self.open = asyncio.Event()
        self.open.set()

    def apply(self, outcome):
        if outcome.record is not None:
            self.machine.apply(outcome.record, self.offset)
            self.offset += 1
        return outcome.answer

    async def read_state(self, key, leader_epoch):
        self.reads.append((key, leader_epoch))
        await self.open.wait()
        if self.read_error:
            return StateReadResult(self.read_error, "told to fail")
        if self.machine.state(key) is None:
            self.initialize(key)
        answer = self.apply(
            self.machine.read(key, leader_epoch, in_metadata=True, now_ms=self._clock.wall_ms())
        )
        state = answer.state
        if answer.error or state is None:
            return StateReadResult(answer.error, answer.message)
        return StateReadResult(
            ErrorCode.NONE, "", state.state_epoch, state.start_offset, tuple(state.batches)
        )

    def initialize(self, key, state_epoch=1, start_offset=-1):
        answer = self.apply(
            self.machine.initialize(
                key,
                state_epoch,
                start_offset,
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
        )
        answer = self.apply(
            self.machine.write(key, request, in_metadata=True, now_ms=self._clock.wall_ms())
        )
        return StateWriteResult(answer.error, answer.message)
