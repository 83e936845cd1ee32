"""CommitGeneration: the pointer to a compaction, and what it means for pruning (LOG-19)."""

import pytest

from sharemesh.domain.share_state.records import Generation
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.share_coordinator.world import CONTEXT, Client, world

HASH = b"h" * 32
DAY_MS = 24 * 60 * 60 * 1_000


def commit(service, name, previous="", end=3, **fields):
    request = pb.CommitGenerationRequest(
        shard=0,
        generation_id=name,
        previous_generation_id=previous,
        end_offset=end,
        path=f"generations/{name}/manifest.json",
        content_hash=HASH,
        format_version=1,
    )
    for field, value in fields.items():
        setattr(request, field, value)
    return service.commit_generation(request, CONTEXT)


async def some_writes(service, count):
    g = Client(service)
    await g.I(0, 0)
    for _ in range(count - 1):
        assert (await g.W(0, 0, 0, 0, [(0, 4, 2, 1)])).error_code == 0


async def test_a_generation_follows_the_newest_one_and_joins_the_log():
    """LOG-20."""
    async with world() as w:
        async with w.coordinator() as service:
            await some_writes(service, 6)
            assert (await commit(service, "g1", end=3)).error_code == 0
            assert (await commit(service, "g1", end=3)).error_code == 0  # again: nothing new
            for refused, why in (
                (await commit(service, "g2", previous="", end=5), "another job was first"),
                (await commit(service, "g2", previous="g0", end=5), "another job was first"),
                (await commit(service, "g2", previous="g1", end=99), "outside the committed log"),
                (await commit(service, "g2", previous="g1", end=2), "before 3"),
                (await commit(service, "g1", end=4), "another content"),
            ):
                assert refused.error_code == 42
                assert why in refused.error_message
            assert (await commit(service, "g2", previous="g1", end=5)).error_code == 0
        pointers = [r for _, r in await w.log() if isinstance(r, Generation)]
        assert [p.generation_id for p in pointers] == ["g1", "g2"]
        assert pointers[1].previous_generation_id == "g1"
        async with w.coordinator() as service:
            newest = service.shards.shard(0).peek(lambda machine: machine.generation)
            assert (newest.pointer.generation_id, newest.offset) == ("g2", 7)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"generation_id": ""}, 42),
        ({"path": "/etc/passwd"}, 42),
        ({"path": "generations/../../x"}, 42),
        ({"path": ""}, 42),
        ({"content_hash": b"short"}, 42),
        ({"end_offset": 0}, 42),
        ({"format_version": 2}, 35),
        ({"shard": 5}, 16),
        ({"history_end_offset": 99}, 42),
    ],
)
async def test_a_generation_that_cannot_be_is_refused(fields, code):
    async with world() as w, w.coordinator() as service:
        await some_writes(service, 6)
        answer = await commit(service, "g1", **fields)
        assert answer.error_code == code
        assert answer.error_message
        assert service.shards.shard(0).peek(lambda machine: machine.generation) is None


async def test_a_generation_below_the_log_start_no_longer_joins():
    """LOG-20."""
    async with world() as w, w.coordinator(updates_per_snapshot=0) as service:
        await some_writes(service, 6)
        await w.clock.advance(600_001)
        assert service.shards.shard(0).log_start_offset >= 5
        answer = await commit(service, "g1", end=3)
        assert answer.error_code == 42
        assert "outside the committed log" in answer.error_message


async def test_pruning_stops_at_the_generation_and_at_the_history():
    """LOG-21."""
    async with world() as w, w.coordinator(updates_per_snapshot=0) as service:
        shard = service.shards.shard(0)
        await some_writes(service, 6)
        assert (await commit(service, "g1", end=4, history_end_offset=2)).error_code == 0
        await some_writes(service, 6)
        await w.clock.advance(600_001)
        assert shard.log_start_offset == 2
        assert (await commit(service, "g1", end=4, history_end_offset=5)).error_code == 0
        await w.clock.advance(600_001)
        assert shard.log_start_offset == 4
        answer = await commit(service, "g2", "g1", end=8, history_end_offset=7)
        assert answer.error_code == 0
        await w.clock.advance(600_001)
        assert shard.log_start_offset == 7


async def test_a_generation_that_nobody_renews_stops_pruning_only_for_the_grace():
    """LOG-21."""
    async with world() as w:
        settings = {"updates_per_snapshot": 0, "prune_interval_ms": DAY_MS}
        async with w.coordinator(cold_snapshot_interval_ms=DAY_MS, **settings) as service:
            shard = service.shards.shard(0)
            await some_writes(service, 6)
            assert (await commit(service, "g1", end=4)).error_code == 0
            await some_writes(service, 6)
            await w.clock.advance(6 * DAY_MS)
            assert shard.log_start_offset == 4
            await w.clock.advance(3 * DAY_MS)
            assert shard.log_start_offset > 4
            assert shard.peek(lambda machine: machine.generation) is None
            end = shard.committed_end_offset
            assert (await commit(service, "g2", previous="", end=end)).error_code == 0
