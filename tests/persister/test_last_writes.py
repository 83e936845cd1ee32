"""Who reads waits for the last write of the leader before (docs/spec/hand-over.md)."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey
from sharemesh.domain.state_batch import NO_COUNT
from tests.persister.test_persister import KEY, handed, meshed, offered, write
from tests.share_coordinator.world import T1

OTHER = SharePartitionKey(GroupId("g1"), T1, 1)


@asynccontextmanager
async def led(**settings):
    """Two share partitions of one group, which a leader of epoch 1 has read."""
    settings = {"hand_over_wait_ms": 60_000, **settings}
    async with meshed() as (w, network, persister), offered(w, network, "n1", **settings) as states:
        for key in (KEY, OTHER):
            await persister.initialize_state(key, 0, 0)
            await persister.read_state(key, 1)
        yield w, persister, states


async def waiting(w, persister, states):
    """Return a read of the next leader that waits at the coordinator."""
    read = asyncio.ensure_future(persister.read_state(KEY, 2, 1))
    while not len(states._hand_over_waits):
        await w.clock.settle()
    return read


@pytest.mark.parametrize("count", [0, 3])
async def test_a_read_waits_for_the_last_write_and_is_decided_behind_it_hnd_13(count):
    async with led() as (w, persister, states):
        read = await waiting(w, persister, states)
        assert not (await persister.write_state(KEY, write(leader_epoch=1))).error
        assert not (await persister.read_state(OTHER, 2)).error, "others of the lane wait for none"
        await w.clock.settle()
        assert not read.done()
        assert not (await persister.write_state(KEY, handed(count))).error
        assert [lock.first_offset for lock in (await read).handed_over] == [
            lock.first_offset for lock in handed(count).hand_over
        ]
        assert not len(states._hand_over_waits)
        late = await persister.write_state(KEY, write(leader_epoch=1))
        assert late.error is ErrorCode.FENCED_LEADER_EPOCH


async def test_a_last_write_that_came_before_is_not_waited_for_hnd_13():
    async with led() as (_, persister, _states):
        for key, count in ((KEY, 2), (OTHER, 0)):
            await persister.write_state(key, handed(count))
            assert len((await persister.read_state(key, 2, 1)).handed_over) == count


async def test_a_recount_and_the_count_go_over_the_wire_ack_23():
    async with led() as (_, persister, _states):
        for count, is_recount in ((5, False), (3, False), (2, True)):
            told = replace(
                write(leader_epoch=1), delivery_complete_count=count, is_recount=is_recount
            )
            assert not (await persister.write_state(KEY, told)).error
            stored = (await persister.read_summary(KEY)).delivery_complete_count
            assert stored == (2 if is_recount else 5)
        assert (await persister.read_state(KEY, 2)).delivery_complete_count == 2
        refused = await persister.read_state(KEY, 1)
        assert (refused.error, refused.delivery_complete_count) == (
            ErrorCode.FENCED_LEADER_EPOCH,
            NO_COUNT,
        )


async def test_whoever_is_not_the_highest_epoch_is_not_waited_for_hnd_13():
    async with led() as (_, persister, _states):
        await persister.read_state(KEY, 2)  # another leader was there
        assert not (await persister.read_state(KEY, 3, 1)).error
        assert not (await persister.read_state(KEY, 3, 3)).error, "nor who names itself"
        assert not (await persister.read_state(OTHER, 9, 2)).error, "which has read nothing"


async def test_a_last_write_that_does_not_come_is_waited_for_so_long_and_fenced_hnd_13():
    async with led(hand_over_wait_ms=20) as (w, persister, states):
        assert not (await (await waiting(w, persister, states))).error
        late = await persister.write_state(KEY, handed(2))
        assert (late.error, late.keeps_hand_over) == (ErrorCode.FENCED_LEADER_EPOCH, False)
        assert (await persister.read_state(KEY, 2, 1)).handed_over == ()


async def test_another_leader_that_reads_ends_the_wait_hnd_13():
    async with led() as (w, persister, states):
        read = await waiting(w, persister, states)
        assert not (await persister.read_state(KEY, 3)).error
        assert (await read).error is ErrorCode.FENCED_LEADER_EPOCH


async def test_a_shard_is_served_until_its_locks_are_asked_for_hnd_14():
    async with led() as (w, persister, states):
        await persister.write_state(KEY, handed(2))
        await persister.write_state(OTHER, handed(0))
        stopping = asyncio.ensure_future(states.shards.stop_shard(0, orderly=True))
        await w.clock.settle()
        assert not stopping.done()
        assert len((await persister.read_state(KEY, 2)).handed_over) == 2
        await stopping
        assert states.shards.served() == ()


async def test_a_shard_is_served_until_what_reads_wait_for_has_come_hnd_14():
    async with led() as (w, persister, states):
        read = await waiting(w, persister, states)
        stopping = asyncio.ensure_future(states.shards.stop_shard(0, orderly=True))
        await w.clock.settle()
        assert not stopping.done()
        await persister.write_state(KEY, handed(2))
        assert len((await read).handed_over) == 2
        await stopping


@pytest.mark.parametrize("orderly", [True, False])
async def test_a_shard_waits_so_long_and_what_waits_is_asked_for_elsewhere_hnd_14(orderly):
    async with led(hand_over_wait_ms=20) as (w, persister, states):
        await persister.write_state(OTHER, handed(2))
        stopping = asyncio.ensure_future(states.shards.stop_shard(0, orderly=orderly))
        if orderly:
            await w.clock.settle()
            assert not stopping.done()
        await stopping
        assert states.shards.served() == ()
        assert not len(states._hand_over_waits)


async def test_locks_that_have_ended_keep_no_shard_hnd_14():
    async with led() as (w, persister, states):
        await persister.write_state(KEY, handed(2))
        await w.clock.advance(30_000)
        await states.shards.stop_shard(0, orderly=True)


async def test_who_explains_a_record_is_told_of_its_lock_and_takes_nothing_exp_12():
    async with led() as (_, persister, _states):
        hand_over = handed(2)
        await persister.write_state(KEY, hand_over)
        for lock in hand_over.hand_over:
            told = await persister.read_history(KEY, lock.first_offset, "", 2)
            assert (told.handed_over.member_id, told.handed_over.delivery_count) == (
                lock.member_id,
                lock.delivery_count,
            )
            assert 0 < told.handed_over.remaining_ms <= lock.remaining_ms
        beyond = hand_over.hand_over[-1].last_offset + 1
        assert (await persister.read_history(KEY, beyond, "", 2)).handed_over is None
        assert (await persister.read_history(KEY, 0, "", 0)).handed_over is None
        assert len((await persister.read_state(KEY, 2)).handed_over) == 2
