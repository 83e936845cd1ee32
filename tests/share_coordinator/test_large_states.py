"""Large states at a share coordinator: parts in its log, reads in parts (WIN-12 to WIN-15)."""

import pytest

from sharemesh.domain import packed_batches
from sharemesh.domain.share_state import checks
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import SnapshotPart, StateSnapshot
from sharemesh.runtime.shard_kind import RuntimeLimits
from sharemesh.share_coordinator.shard_kind import encode
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.share_coordinator.world import CONTEXT, T1, Client, tuples, world

LARGE = {"large_batches": 4, "part_batches": 3, "updates_per_snapshot": 3}


def singles(first, count):
    return [(first + 2 * n, first + 2 * n, 2, 1) for n in range(count)]


async def test_win_13_the_snapshot_follows_the_updates_and_a_load_reads_it():
    """WIN-12, WIN-13."""
    async with world() as w:
        async with w.coordinator(**LARGE) as service:
            g = Client(service)
            await g.I(0, 0)
            for number in range(4):
                await g.W(0, 0, 0, 0, singles(100 * number, 5))
            await w.clock.advance(10)
        log = await w.log()
        parts = [offset for offset, record in log if isinstance(record, SnapshotPart)]
        assert len(parts) == 7
        assert sum(isinstance(record, StateSnapshot) for _, record in log) == 1
        async with w.coordinator(**LARGE) as service:
            shard = service.shards.shard(0)
            await shard.delete_before(parts[0])
        async with w.coordinator(**LARGE) as service:
            read = await Client(service).R(0)
            expected = [each for number in range(4) for each in singles(100 * number, 5)]
            assert tuples(read.state_batches) == expected


async def test_win_12_parts_lie_in_several_batches_of_the_log():
    """WIN-12: a cold snapshot that no single batch of the log holds."""
    async with world() as w:
        limits = RuntimeLimits(max_batch_bytes=600)
        async with w.coordinator(**LARGE, runtime=limits) as service:
            g = Client(service)
            await g.I(0, 0)
            await g.W(0, 0, 0, 0, singles(0, 12))
            await Client(service, partition=1).I(0, 0)
            await w.clock.advance(300_001)
            await w.clock.advance(10)
        parts = [record for _, record in await w.log() if isinstance(record, SnapshotPart)]
        assert [part.part for part in parts] == [0, 1, 2, 3]


async def test_win_15_one_part_is_read_at_a_time(monkeypatch):
    """WIN-15."""
    monkeypatch.setattr(packed_batches, "PACKED_MIN", 8)
    async with world() as w, w.coordinator(**LARGE) as service:
        g = Client(service)
        await g.I(0, 0)
        await g.W(0, 0, 0, 0, singles(0, 8))

        async def part(from_offset):
            item = pb.ReadPartitionState(leader_epoch=0, from_offset=from_offset)
            topic = pb.ReadTopicState(topic_id=T1, partitions=[item])
            request = pb.ReadShareGroupStateRequest(group_id="g1", topics=[topic])
            return (await service.read(request, CONTEXT)).results[0].partitions[0]

        found = [await part(0)]
        while found[-1].HasField("next_offset"):
            found.append(await part(found[-1].next_offset))
        assert [len(each.packed_batches.lengths) for each in found] == [3, 3, 2]
        assert not any(each.state_batches for each in found)
        # An older leader gets all at once, as long as that is what it can take.
        assert tuples((await g.R(0)).state_batches) == singles(0, 8)
        assert (await g.H(4)).delivery_state == 2
        await g.W(0, 0, 11, 0)  # few are left
        assert tuples((await part(13)).state_batches) == singles(14, 1)
        monkeypatch.setattr(checks, "MAX_BATCHES", 1)
        refused = await g.R(0)
        assert refused.error_code == 42
        assert "upgrade" in refused.error_message


@pytest.mark.parametrize("kept", range(5))
async def test_win_12_a_coordinator_that_died_within_a_snapshot(kept):
    """WIN-12: the next one goes on from what the log says without the parts."""
    async with world() as w:
        async with w.coordinator(**LARGE) as service:
            g = Client(service)
            await g.I(0, 0)
            await g.W(0, 0, 0, 0, singles(0, 12))
            shard = service.shards.shard(0)
            parts = shard.peek(lambda m: m.cold_snapshot(next(m.states())[0], now_ms=5))
            if kept:
                shard._log.append([encode(record) for record in parts[:kept]])
                await shard._log.committed(shard._log.end_offset)
        async with w.coordinator(**LARGE) as service:
            g = Client(service)
            assert tuples((await g.R(0)).state_batches) == singles(0, 12)
            await g.W(0, 0, 0, 0, singles(50, 2))
            assert tuples((await g.R(0)).state_batches) == [*singles(0, 12), *singles(50, 2)]


async def test_win_13_a_refused_snapshot_is_tried_again_after_a_pause(monkeypatch):
    """WIN-13: there is room for writes and none for the parts; a try costs as much as success."""
    async with world() as w, w.coordinator(**LARGE) as service:
        g = Client(service)
        await g.I(0, 0)
        shard, tries = service.shards.shard(0), []
        snapshot, has_room = ShareStateMachine.cold_snapshot, shard._log.has_room

        def counted(machine, key, *, now_ms):
            tries.append(now_ms)
            return snapshot(machine, key, now_ms=now_ms)

        monkeypatch.setattr(ShareStateMachine, "cold_snapshot", counted)
        monkeypatch.setattr(shard._log, "has_room", lambda size: size < 66_500)
        for number in range(8):
            written = await g.W(0, 0, 0, 0, singles(100 * number, 5))
            assert written.error_code == 0
            await w.clock.advance(10)
        assert len(tries) == 1
        await w.clock.advance(10_000)
        await g.R(0)
        await w.clock.advance(10)
        assert len(tries) == 2
        monkeypatch.setattr(shard._log, "has_room", has_room)
        await w.clock.advance(10_000)
        await g.R(0)
        await w.clock.advance(10)
    assert sum(isinstance(record, SnapshotPart) for _, record in await w.log()) > 7
