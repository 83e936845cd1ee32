"""A request that names too many share partitions is refused before any work is done for it."""

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_state import checks
from sharemesh.domain.share_state.checks import MAX_BATCHES, MAX_STATE_EPOCH
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import common_pb2
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.share_coordinator.world import CONTEXT, T1, Client, world


@pytest.mark.parametrize(("topics", "partitions"), [(11, 1), (11, 0), (1, 11), (3, 4)])
async def test_too_many_topics_or_share_partitions_are_refused(topics, partitions):
    async with world() as w, w.coordinator(requested_partitions=10) as service:
        await Client(service).I(0, 0)
        items = [pb.ReadPartitionState(partition=p) for p in range(partitions)]
        topic = pb.ReadTopicState(topic_id=T1, partitions=items)
        request = pb.ReadShareGroupStateRequest(group_id="g1", topics=[topic] * topics)
        with pytest.raises(CallFailedError, match="ask for at most 10") as refused:
            await service.read(request, CONTEXT)
        assert refused.value.failure is Failure.RESOURCE_EXHAUSTED
        assert (await Client(service).R(0)).error_code == 0


def batches_of(first, count):
    """Return so many batches that do not merge."""
    return [
        common_pb2.StateBatch(
            first_offset=first + 2 * n, last_offset=first + 2 * n, delivery_state=2
        )
        for n in range(count)
    ]


async def written(service, start_offset, batches, *, state_epoch=0):
    item = pb.WritePartitionState(
        state_epoch=state_epoch, start_offset=start_offset, state_batches=batches
    )
    topic = pb.WriteTopicState(topic_id=T1, partitions=[item])
    request = pb.WriteShareGroupStateRequest(group_id="g1", topics=[topic])
    return (await service.write(request, CONTEXT)).results[0].partitions[0]


async def begun(service, *, group_id="g1", **item):
    topic = pb.InitializeTopicState(topic_id=T1, partitions=[pb.InitializePartitionState(**item)])
    request = pb.InitializeShareGroupStateRequest(group_id=group_id, topics=[topic])
    return (await service.initialize(request, CONTEXT)).results[0].partitions[0]


async def test_a_state_of_too_many_batches_is_refused_until_the_start_offset_moves(monkeypatch):
    monkeypatch.setattr(checks, "MAX_STATE_BATCHES", MAX_BATCHES)
    async with world() as w, w.coordinator(updates_per_snapshot=2) as service:
        await begun(service)
        assert (await written(service, 0, batches_of(0, MAX_BATCHES))).error_code == 0
        for first in (100_000, 200_000, 300_000):  # each would be a snapshot by now
            refused = await written(service, 0, batches_of(first, 1))
            assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert (await written(service, 0, batches_of(10, 5))).error_code == 0  # adds none
        assert (await written(service, 50_000, batches_of(100_000, 1))).error_code == 0


async def test_a_state_epoch_that_would_leave_later_groups_no_room_is_refused():
    async with world() as w, w.coordinator() as service:
        refused = await begun(service, state_epoch=2**31 - 1)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert (await begun(service, state_epoch=MAX_STATE_EPOCH)).error_code == 0
        assert (await Client(service).D(MAX_STATE_EPOCH)).error_code == 0
        later = await begun(service, group_id="later", state_epoch=1)
        assert later.known_state_epoch == MAX_STATE_EPOCH
        later = await begun(service, group_id="later", state_epoch=later.known_state_epoch + 1)
        assert later.error_code == 0


async def test_a_group_id_that_no_group_has_costs_nothing():
    async with world() as w, w.coordinator() as service:
        refused = await begun(service, group_id="g" * 60_000)
        assert refused.error_code == ErrorCode.INVALID_GROUP_ID


async def test_an_import_that_completes_more_records_than_can_be_counted_is_refused():
    async with world() as w, w.coordinator() as service:
        huge = common_pb2.StateBatch(first_offset=0, last_offset=2**62, delivery_state=2)
        refused = await begun(service, state_epoch=1, state_batches=[huge])
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert (await begun(service, state_epoch=1)).error_code == 0


async def test_a_late_repeat_of_an_import_changes_nothing_and_another_one_begins_anew():
    async with world() as w, w.coordinator() as service:
        first = {"state_epoch": 1, "start_offset": 4, "state_batches": batches_of(6, 2)}
        assert (await begun(service, **first)).error_code == 0
        assert (await written(service, 5, batches_of(20, 1), state_epoch=1)).error_code == 0
        assert (await begun(service, **first)).error_code == 0
        read = await Client(service).R(0)
        assert [batch.first_offset for batch in read.state_batches] == [6, 8, 20]
        other = {**first, "state_batches": batches_of(30, 1)}
        assert (await begun(service, **other)).error_code == 0
        read = await Client(service).R(0)
        assert (read.start_offset, len(read.state_batches)) == (4, 1)
