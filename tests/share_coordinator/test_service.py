"""The share coordinator's RPCs over a real log (spec SC)."""

import asyncio

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey
from sharemesh.domain.share_state.fold import fold
from sharemesh.domain.share_state.records import StateSnapshot, StateUpdate, Tombstone
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.share_coordinator.world import CONTEXT, T1, T2, Client, tuples, world

KEY = SharePartitionKey(GroupId("g1"), T1, 0)


async def test_a_write_is_one_update_and_is_served_and_folded_alike():
    async with world() as w, w.coordinator() as service:
        g = Client(service)
        assert (await g.I(0, 0)).error_code == 0
        assert (await g.R(0)).error_code == 0
        assert (await g.W(0, 0, 0, 0, [(0, 10, 0, 1)])).error_code == 0
        read = await g.R(0)
        assert (read.state_epoch, read.start_offset) == (0, 0)
        assert tuples(read.state_batches) == [(0, 10, 0, 1)]
        served = service.shards.shard(0).peek(lambda machine: machine.state(KEY))
        await service.close()
        records = [record for _, record in await w.log()]
        assert [type(r) for r in records] == [StateSnapshot, StateUpdate]
        update = records[1]
        assert (update.snapshot_epoch, update.leader_epoch, update.start_offset) == (0, 0, 0)
        assert tuples(update.batches) == [(0, 10, 0, 1)]
        folded = None
        for record in records:
            folded = fold(folded, record)
        assert folded == served


async def test_all_that_was_confirmed_is_there_after_a_restart():
    async with world(topics=(T1, T2)) as w:
        async with w.coordinator() as service:
            for topic in (T1, T2):
                g = Client(service, topic_id=topic, partition=2)
                await g.I(3, 5)
                await g.R(4)
                await g.W(3, 4, 7, 2, [(9, 12, 2, 1)])
            await Client(service, topic_id=T2, partition=2).D()
        async with w.coordinator() as service:
            read = await Client(service, topic_id=T1, partition=2).R(4)
            assert (read.error_code, read.state_epoch, read.start_offset) == (0, 3, 7)
            assert tuples(read.state_batches) == [(9, 12, 2, 1)]
            assert (await Client(service, topic_id=T2, partition=2).R(4)).error_code == 42


async def test_topics_and_partitions_are_answered_as_asked_and_apart():
    async with world(state_shards=3, topics=(T1, T2)) as w, w.coordinator(shards=(0, 1)) as service:
        request = pb.InitializeShareGroupStateRequest(
            group_id="g1",
            topics=[
                pb.InitializeTopicState(
                    topic_id=topic,
                    partitions=[
                        pb.InitializePartitionState(partition=p, state_epoch=0, start_offset=0)
                        for p in partitions
                    ],
                )
                for topic, partitions in ((T2, (3, 1, -1, 99)), (T1, (0, 0)), (b"", (0,)))
            ],
        )
        response = await service.initialize(request, CONTEXT)
        got = [(t.topic_id, [p.partition for p in t.partitions]) for t in response.results]
        assert got == [(T2, [3, 1, -1, 99]), (T1, [0, 0]), (b"", [0])]
        for topic in response.results:
            for p in topic.partitions:
                if topic.topic_id == b"" or p.partition == -1:
                    expected = ErrorCode.INVALID_REQUEST
                else:
                    shard = w.view.share_shard(
                        SharePartitionKey(GroupId("g1"), topic.topic_id, p.partition)
                    )
                    expected = ErrorCode.NONE if shard < 2 else ErrorCode.NOT_COORDINATOR
                    if p.partition == 99 and shard < 2:
                        expected = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                assert p.error_code == expected, (topic.topic_id, p)


async def test_nothing_asked_is_nothing_answered():
    async with world() as w, w.coordinator() as service:
        for request in (
            pb.WriteShareGroupStateRequest(group_id="g1"),
            pb.WriteShareGroupStateRequest(group_id="g1", topics=[pb.WriteTopicState(topic_id=T1)]),
            pb.WriteShareGroupStateRequest(
                topics=[
                    pb.WriteTopicState(
                        topic_id=T1, partitions=[pb.WritePartitionState(partition=0)]
                    )
                ]
            ),
        ):
            assert not (await service.write(request, CONTEXT)).results


async def test_a_coordinator_that_is_not_started_says_15_for_each_partition():
    async with world() as w, w.coordinator(started=False) as service:
        assert (await Client(service).I(0, 0)).error_code == 15
        assert (await Client(service).S()).error_code == 15


async def test_a_shard_that_is_not_ours_says_16_and_a_loading_one_14():
    async with world() as w, w.coordinator(shards=()) as service:
        assert (await Client(service).I(0, 0)).error_code == 16
        loading = asyncio.ensure_future(service.shards.start_shard(0, 1))
        seen = []
        while not loading.done():
            await asyncio.sleep(0)
            seen.append((await Client(service).S()).error_code)
        await loading
        assert set(seen) <= {14, 0}
        assert 14 in seen
        assert (await Client(service).S()).error_code == 0


async def test_a_topic_that_this_node_has_not_heard_of_yet_is_waited_for():
    async with world() as w, w.coordinator(metadata_wait_ms=200) as service:
        early = asyncio.ensure_future(Client(service, topic_id=T2).I(0, 0))
        await w.clock.settle()
        assert not early.done()
        await w.create_topic(T2)
        assert (await early).error_code == 0


@pytest.mark.parametrize("late", ["delete", "write", "initialize"])
async def test_a_late_request_of_an_earlier_life_loses_nothing_of_the_new_one(late):
    async with world() as w:
        async with w.coordinator() as service:
            g = Client(service)
            await g.I(5, 100)
            await g.R(1)
            await g.W(5, 1, 100, 0, [(100, 109, 2, 1)])
            await g.D(5)
        async with w.coordinator() as service:
            g = Client(service)
            again = await g.I(5, 0)
            assert (again.error_code, again.known_state_epoch) == (124, 5)
            assert (await g.I(6, 0)).error_code == 0
            await g.R(2)
            await g.W(6, 2, 0, 0, [(0, 4, 2, 1)])
        async with w.coordinator() as service:
            g = Client(service)
            if late == "delete":
                assert (await g.D(5)).error_code == 124
            elif late == "write":
                assert (await g.W(5, 2, 0, 0, [(0, 9, 0, 9)])).error_code == 124
                assert (await g.W(5, 1, 0, 0, [(0, 9, 0, 9)])).error_code == 74
            else:
                assert (await g.I(5, 100)).error_code == 124
            read = await g.R(2)
            assert (read.state_epoch, read.start_offset) == (6, 0)
            assert tuples(read.state_batches) == [(0, 4, 2, 1)]


async def test_floors_outlive_pruned_tombstones():
    async with world(topics=(T1, T2)) as w:
        async with w.coordinator() as service:
            g = Client(service)
            await g.I(5, 0)
            await g.D(5)
            other = Client(service, topic_id=T2)
            await other.I(6, 0)
            for _ in range(3):
                await w.clock.advance(300_001)
            await other.W(6, 0, 1, 0)
            for _ in range(3):
                await w.clock.advance(300_001)
            assert service.shards.shard(0).log_start_offset > 1
        records = await w.log()
        assert not any(isinstance(record, Tombstone) for _, record in records)
        async with w.coordinator() as service:
            assert (await Client(service).I(5, 0)).error_code == 124
            assert (await Client(service).I(6, 0)).error_code == 0


def topics_of(service):
    """Return the topics of which the first shard has states."""
    return service.shards.shard(0).peek(lambda machine: machine.topic_ids())


async def test_a_topic_that_goes_away_takes_its_keys_along():
    async with world(topics=(T1, T2)) as w:
        async with w.coordinator() as service:
            for topic in (T1, T2):
                for partition in (0, 1):
                    await Client(service, topic_id=topic, partition=partition).I(1, 0)
            await w.delete_topic(T1)
            await w.clock.settle()
            left = service.shards.shard(0).peek(lambda m: sorted(k for k, _ in m.states()))
            assert {key.topic_id for key in left} == {T2}
            assert len(left) == 2
        tombs = [r for _, r in await w.log() if isinstance(r, Tombstone)]
        assert sorted(t.key.partition for t in tombs) == [0, 1]


async def test_a_topic_deleted_while_nobody_watched_is_swept_after_a_whole_interval():
    async with world(topics=(T1, T2)) as w:
        async with w.coordinator() as service:
            await Client(service).I(1, 0)
        await w.delete_topic(T1)
        await w.register("n1")
        async with w.coordinator() as service:
            await w.clock.advance(300_001)
            assert topics_of(service) == {T1}
            await w.clock.advance(300_001)
            assert topics_of(service) == set()


async def test_ktp_10_a_topic_that_may_come_back_keeps_its_states_for_the_grace():
    async with world(topics=(T1, T2)) as w:
        await w.register("n1")
        async with w.coordinator(topic_grace_ms=3_600_000) as service:
            for topic in (T1, T2):
                await Client(service, topic_id=topic).I(1, 7)
            await w.delete_topic(T1)
            await w.delete_topic(T2)
            await w.clock.advance(3_600_000)
            assert topics_of(service) == {T1, T2}
            await w.create_topic(T1)
            assert (await Client(service).R(0)).start_offset == 7
            await w.clock.advance(600_002)
            assert topics_of(service) == {T1}
            await w.delete_topic(T1)
            await w.clock.advance(3_600_000)
            assert topics_of(service) == {T1}


async def test_ktp_10_the_grace_begins_anew_each_time_a_topic_goes():
    async with world(topics=(T1,)) as w:
        await w.register("n1")
        async with w.coordinator(topic_grace_ms=3_600_000) as service:
            await Client(service).I(1, 7)
            for _ in range(20):  # away at each look, back between two
                await w.delete_topic(T1)
                await w.clock.advance(300_001)
                await w.create_topic(T1)
            assert topics_of(service) == {T1}


async def test_ktp_10_the_grace_begins_anew_with_a_process_that_knows_nothing_of_before():
    async with world(topics=(T1,)) as w:
        await w.register("n1")
        async with w.coordinator(topic_grace_ms=3_600_000) as service:
            await Client(service).I(1, 7)
            await w.delete_topic(T1)
            await w.clock.advance(3_500_000)
        async with w.coordinator(topic_grace_ms=3_600_000) as service:
            await w.clock.advance(3_600_000)
            assert topics_of(service) == {T1}
            await w.clock.advance(600_002)
            assert topics_of(service) == set()


async def test_a_late_repeat_of_an_initialization_does_not_reset_progress():
    async with world() as w:
        async with w.coordinator(updates_per_snapshot=1) as service:
            g = Client(service)
            await g.I(3, 10)
            for start in (12, 14, 16):
                assert (await g.W(3, 0, start, 0, [(start, start + 5, 2, 1)])).error_code == 0
            assert (await g.I(3, 10)).error_code == 0
            assert (await g.R(0)).start_offset == 16
        async with w.coordinator(updates_per_snapshot=1) as service:
            g = Client(service)
            assert (await g.I(3, 10)).error_code == 0
            assert (await g.R(0)).start_offset == 16
            assert (await g.I(3, 11)).error_code == 0  # not a repeat: SC-9
            assert (await g.R(0)).start_offset == 11
            assert (await g.I(4, 10)).error_code == 0
            assert (await g.R(0)).start_offset == 10


async def test_a_write_that_becomes_a_snapshot_still_says_what_it_changed():
    async with world() as w:
        async with w.coordinator(updates_per_snapshot=1) as service:
            g = Client(service)
            await g.I(0, 0)
            await g.W(0, 0, 0, 0, [(0, 4, 2, 1)])
            await g.W(0, 0, 5, 0, [(3, 9, 2, 1)])
        made = [r for _, r in await w.log() if isinstance(r, StateSnapshot)][-1]
        assert tuples(made.batches) == [(5, 9, 2, 1)]
        assert tuples(made.changed) == [(3, 9, 2, 1)]


async def test_sc_7_what_was_never_initialized_is_neither_read_nor_written():
    async with world() as w, w.coordinator() as service:
        g = Client(service)
        written = await g.W(0, 0, 0, 0, [(0, 9, 0, 1)])
        read = await g.R(0)
        assert (written.error_code, read.error_code) == (42, 42)
        assert "uninitialized share partition" in written.error_message
        assert await w.log() == []


async def test_sc_18_a_write_of_a_higher_state_epoch_is_accepted_and_does_not_raise_it():
    async with world() as w, w.coordinator() as service:
        g = Client(service)
        await g.I(1, 0)
        await g.R(0)
        assert (await g.W(5, 0, 0, 0, [(0, 9, 0, 1)])).error_code == 0
        assert (await g.R(0)).state_epoch == 1
