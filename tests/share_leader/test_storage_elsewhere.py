"""A record log that others write to, and that cannot be reached for a while."""

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, SharePartitionKey
from sharemesh.ports.shard_log import FencedError
from sharemesh.share_leader.partition.share_partition_runner import Phase
from sharemesh.share_leader.partition.state_requests import resolve_start_offset
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.world import FOO, LEADER, TopicPartition, world

P0 = TopicPartition(FOO, 0)


class FarLog:
    """What is known of a log whose end moves without us."""

    def __init__(self):
        self.log_start_offset, self.high_watermark, self.refusal = 0, 5, None

    async def refresh(self):
        if self.refusal is not None:
            raise self.refusal
        self.log_start_offset, self.high_watermark = 2, 9


@pytest.mark.parametrize(("policy", "expected"), [("latest", 9), ("earliest", 2)])
async def test_where_a_group_begins_is_asked_of_the_log_first(policy, expected):
    assert await resolve_start_offset(policy, FarLog(), None) == expected


async def test_a_log_that_cannot_be_asked_says_so_instead_of_an_old_end():
    log = FarLog()
    log.refusal = RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, "no broker answers")
    with pytest.raises(RefusedError, match="no broker answers"):
        await resolve_start_offset("latest", log, None)


async def test_explain_says_that_the_storage_does_not_answer(monkeypatch):
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest")
        await w.lead(P0)
        await w.produce(P0, 3)
        await w.client().join(P0)
        request = pb.ExplainRequest(group_id="g", topic_name="foo", offset=2)
        log = type(w.runner(P0).log)
        monkeypatch.setattr(log, "unavailable", "no broker leads it since 3 s")
        told = await w.network.caller().call(methods.EXPLAIN, request, to=LEADER)
        assert told.reason == "STORAGE_UNAVAILABLE"
        assert told.explanation.endswith(": no broker leads it since 3 s")


async def test_leader_epochs_climb_past_what_is_stored_where_the_log_has_no_fence(monkeypatch):
    """KRL-17: as after etcd was restored from a backup."""
    async with world() as w:
        key = SharePartitionKey(GroupId("g"), FOO, 0)
        await w.lead(P0, epoch=1)
        monkeypatch.setattr(type(w.service.partitions.get(P0).log), "has_own_fence", False)
        await w.service.stop_partition(P0)
        await w.keeper.read_state(key, 40)
        ended = []
        w.service.on_ended(ended.append)
        await w.lead(P0, epoch=7)
        await w.client().fetch(P0)
        assert ended == [P0]
        assert w.service.partitions.get(P0) is None
        for epoch in (8, 40):
            with pytest.raises(FencedError) as fenced:
                await w.service.start_partition(P0, epoch)
            assert fenced.value.fence_epoch == 40
        await w.lead(P0, epoch=41)
        await w.client("m2").join(P0)
        assert w.runner(P0).phase is Phase.ACTIVE


async def test_a_log_with_a_fence_of_its_own_is_not_given_up_for_a_refused_read():
    async with world() as w:
        await w.keeper.read_state(SharePartitionKey(GroupId("g"), FOO, 0), 40)
        await w.lead(P0, epoch=7)
        await w.client().fetch(P0)
        assert w.service.partitions.get(P0) is not None


@pytest.mark.parametrize(("start_offset", "is_said"), [(9, True), (3, False)])
async def test_a_group_that_starts_behind_the_end_is_told_of_in_the_log(
    start_offset, is_said, caplog
):
    """KRL-20."""
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 3)
        w.keeper.initialize(SharePartitionKey(GroupId("g"), FOO, 0), start_offset=start_offset)
        await w.client().join(P0)
        words = "group g starts at offset 9 of foo/0, which ends at 3: records were lost"
        assert (words in caplog.text) is is_said
