"""A load leaves updates in the backlog and serves the same state (spec SC-6)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharemesh.codec.state_record import decode_updates
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.share_coordinator.shard_kind import encode, load
from tests.domain.share_state.test_machine_properties import operations, record_of
from tests.share_coordinator.world import Client, tuples, world


@settings(max_examples=200, deadline=None)
@given(st.lists(operations, max_size=40), st.integers(0, 4), st.sampled_from([0, 200, 1 << 20]))
def test_a_loaded_machine_is_the_one_that_wrote(made, updates_per_snapshot, backlog_max_bytes):
    machine = ShareStateMachine(updates_per_snapshot)
    log = []
    for now_ms, operation in enumerate(made):
        record = record_of(machine, operation, now_ms)
        if record is not None:
            machine.apply(record, len(log))
            log.append(encode(record)._replace(offset=len(log)))
    loaded = ShareStateMachine(updates_per_snapshot, decode_updates)
    for at in range(0, len(log), 7):
        load(loaded, log[at : at + 7], backlog_max_bytes=backlog_max_bytes)
    assert loaded.backlog.size_bytes <= max(0, backlog_max_bytes)
    for now_ms, operation in enumerate(made):  # the next decision is the same too
        assert record_of(loaded, operation, now_ms) == record_of(machine, operation, now_ms)
    assert dict(loaded.states()) == dict(machine.states())
    assert loaded.floors == machine.floors
    assert loaded.prune_limit == machine.prune_limit
    assert loaded.backlog.size_bytes == 0
    assert len(loaded.backlog) == 0


async def test_the_backlog_is_folded_in_the_background():
    async with world() as w:
        async with w.coordinator() as service:
            for partition in range(4):
                g = Client(service, partition=partition)
                await g.I(0, 0)
                await g.W(0, 0, 0, 0, [(0, 4, 2, 1)])
                await g.W(0, 0, 0, 0, [(5, 9, 2, 1)])
        async with w.coordinator() as service:
            shard = service.shards.shard(0)
            waiting = lambda: shard.peek(lambda machine: len(machine.backlog))  # noqa: E731
            assert waiting() == 4
            read = await Client(service, partition=3).R(0)
            assert tuples(read.state_batches) == [(0, 9, 2, 1)]
            assert waiting() <= 3
            await w.clock.advance(100)
            assert waiting() == 0


@pytest.mark.parametrize("writes", [100, 2_000])
async def test_a_load_reads_what_lives_and_not_the_history(writes):
    updates_per_snapshot, partitions = 20, 4
    async with world() as w:
        async with w.coordinator(updates_per_snapshot=updates_per_snapshot) as service:
            clients = [Client(service, partition=partition) for partition in range(partitions)]
            for g in clients:
                await g.I(0, 0)
            await clients[0].W(0, 0, 0, 0, [(0, 4, 2, 1)])  # idle from now on: a cold snapshot
            for number in range(writes):
                await clients[1 + number % (partitions - 1)].W(0, 0, number, 0)
            for _ in range(3):
                await w.clock.advance(300_001)
        records = await w.log()
        assert len(records) <= partitions * (updates_per_snapshot + 2)
        async with w.coordinator() as service:
            read = await Client(service).R(0)
            assert tuples(read.state_batches) == [(0, 4, 2, 1)]
            last = await Client(service, partition=1 + (writes - 1) % (partitions - 1)).R(0)
            assert last.start_offset == writes - 1
