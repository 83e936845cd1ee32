"""Section O: the share coordinator (SC), by its RPCs over gRPC and a real state log."""

from contextlib import asynccontextmanager

import pytest

from sharemesh.codec.log_layout import shard_log_path
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, SharePartitionKey, format_key, parse_key
from sharemesh.domain.share_state.records import StateSnapshot, StateUpdate, Tombstone
from sharemesh.ports.shard_log import LogFullError
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.conformance.scenario import scenario
from tests.share_coordinator.over_grpc import coordinator
from tests.share_coordinator.world import CONTEXT, T1, T2, Client, tuples, world

KEY = SharePartitionKey(GroupId("g1"), T1, 0)


class Scene:
    """One share coordinator, the client of g1:t1:0, and what is in the log so far."""

    def __init__(self, world_, service):
        self.world = world_
        self.service = service
        self.g = Client(service)
        self._seen = 0

    def state(self, key=KEY):
        """Return (snapshot epoch, state epoch, leader epoch, start, count, batches)."""
        state = self.service.shards.shard(0).peek(lambda machine: machine.state(key))
        if state is None:
            return None
        return (
            state.snapshot_epoch,
            state.state_epoch,
            state.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            tuples(state.batches),
        )

    def known_leader_epoch(self):
        return self.service.shards.shard(0).peek(
            lambda machine: machine.state(KEY).leader_epoch_max
        )

    async def new_records(self):
        """Return the records written since this was asked last (the shard is loaded anew)."""
        records = [record for _, record in await self.world.log()]
        new = records[self._seen :]
        self._seen = len(records)
        self.world.epoch += 1
        await self.service.shards.start_shard(0, self.world.epoch)
        return new


@asynccontextmanager
async def scene(**settings):
    async with world(topics=(T1, T2)) as w, coordinator(w, **settings) as service:
        yield Scene(w, service)


@scenario("SC-S02")
async def test_a_write_is_one_update():
    async with scene() as s:
        await s.g.I(0, 0)
        await s.g.R(0)
        await s.new_records()
        assert (await s.g.W(0, 0, 0, 0, [(0, 10, 0, 1)])).error_code == 0
        [update] = await s.new_records()
        assert isinstance(update, StateUpdate)
        assert (update.snapshot_epoch, update.leader_epoch, update.start_offset) == (0, 0, 0)
        assert tuples(update.batches) == [(0, 10, 0, 1)]
        assert s.state() == (0, 0, 0, 0, 0, [(0, 10, 0, 1)])


@scenario("SC-S04")
async def test_invalid_requests():
    async with scene() as s:
        await s.g.I(0, 0)
        await s.new_records()
        negative = Client(s.service, partition=-1)
        topicless = Client(s.service, topic_id=b"")
        answers = [
            await negative.I(0, 0),
            await negative.R(0),
            await negative.W(0, 0, 0, 0),
            await negative.D(),
            await s.g.W(0, -1, 0, 0, [(0, 1, 0, 1)]),
            await s.g.R(-1),
            await s.g.W(-1, 0, 0, 0, [(0, 1, 0, 1)]),
            await s.g.I(-1, 0),
            await topicless.I(0, 0),
            await topicless.R(0),
            await topicless.W(0, 0, 0, 0),
            await topicless.D(),
            await topicless.S(),
        ]
        assert [answer.error_code for answer in answers] == [42] * len(answers)
        assert await s.new_records() == []


@pytest.mark.parametrize("missing", ["topic", "partition"])
@scenario("SC-S05")
async def test_what_is_not_in_the_metadata(missing):
    async with world(topics=(T1, T2)) as w:
        await w.delete_topic(T1)
        partition = 0 if missing == "topic" else 7
        async with coordinator(w) as service:
            g = Client(service, partition=partition, topic_id=T1 if missing == "topic" else T2)
            assert (await g.I(0, 0)).error_code == 3
            assert (await g.D()).error_code == 3
    # Reads and writes come that far only where state exists. It was deleted while nobody watched.
    async with world(topics=(T1, T2)) as w:
        async with coordinator(w) as service:
            await Client(service).I(0, 0)
        await w.delete_topic(T1)
        if missing == "partition":
            await w.create_topic(T1, partitions=0)
        async with coordinator(w) as service:
            g = Client(service)
            assert (await g.R(0)).error_code == 3
            assert (await g.W(0, 0, 0, 0, [(0, 1, 0, 1)])).error_code == 3
            assert (await g.D()).error_code == 3
            assert (await g.I(1, 0)).error_code == 3


@scenario("SC-S06")
async def test_an_old_leader_is_fenced():
    async with scene() as s:
        await s.g.I(0, 0)
        await s.g.R(5)
        await s.new_records()
        assert (await s.g.W(0, 4, 0, 0, [(0, 1, 0, 1)])).error_code == 74
        assert s.known_leader_epoch() == 5
        assert await s.new_records() == []


@scenario("SC-S07")
async def test_an_old_state_epoch_is_fenced():
    async with scene() as s:
        await s.g.I(1, 0)
        await s.g.R(5)
        before = s.state()
        assert (await s.g.W(0, 5, 0, 0, [(0, 1, 0, 1)])).error_code == 124
        assert s.known_leader_epoch() == 5
        assert s.state() == before
        assert before[1] == 1


@scenario("SC-S08")
async def test_the_start_offset_never_goes_back():
    async with scene() as s:
        await s.g.I(0, 0)
        await s.g.R(0)
        await s.g.W(0, 0, 5, 0, [(11, 20, 4, 1)])
        await s.new_records()
        await s.g.W(0, 0, 2, 0, [(0, 20, 0, 1)])
        [update] = await s.new_records()
        assert update.start_offset == 5
        assert tuples(update.batches) == [(5, 20, 0, 1)]
        assert s.state()[3] == 5
        assert s.state()[5] == [(5, 10, 0, 1), (11, 20, 4, 1)]


@pytest.mark.parametrize(
    ("stored", "asked", "expected"),
    [((5, 10), (11, 4), (11, 4)), ((11, 10), (11, 5), (11, 10)), ((15, 10), (11, 20), (15, 10))],
)
@scenario("SC-S09")
async def test_the_count_goes_with_the_start_offset(stored, asked, expected):
    async with scene() as s:
        await s.g.I(0, 0)
        await s.g.R(0)
        await s.g.W(0, 0, *stored)
        await s.new_records()
        await s.g.W(0, 0, *asked)
        [update] = await s.new_records()
        assert (update.start_offset, update.delivery_complete_count) == expected
        assert s.state()[3:5] == expected


@scenario("SC-S10")
async def test_a_read_raises_the_leader_epoch_once():
    async with scene() as s:
        await s.g.I(0, 0)
        await s.new_records()
        first = await s.g.R(2)
        [update] = await s.new_records()
        assert isinstance(update, StateUpdate)
        assert (
            update.snapshot_epoch,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
            update.batches,
        ) == (0, 2, -1, -1, ())
        second = await s.g.R(2)
        assert await s.new_records() == []
        for answer in (first, second):
            assert (answer.error_code, answer.state_epoch, answer.start_offset) == (0, 0, 0)
            assert tuples(answer.state_batches) == []


@scenario("SC-S12")
async def test_the_summary():
    async with scene() as s:
        await s.g.I(3, 0)
        await s.g.R(2)
        await s.g.W(3, 2, 0, 4, [(0, 10, 0, 1)])
        await s.new_records()
        summary = await s.g.S()
        assert (
            summary.error_code,
            summary.state_epoch,
            summary.leader_epoch,
            summary.start_offset,
            summary.delivery_complete_count,
        ) == (0, 3, 2, 0, 4)
        absent = await Client(s.service, group="other").S()
        assert (
            absent.error_code,
            absent.state_epoch,
            absent.leader_epoch,
            absent.start_offset,
            absent.delivery_complete_count,
        ) == (0, 0, 0, -1, -1)
        assert (await Client(s.service, partition=-1).S()).error_code == 42
        assert await s.new_records() == []


@scenario("SC-S13")
async def test_writes_that_are_not_in_sequence():
    async with scene(updates_per_snapshot=0) as s:
        await s.g.I(0, -1)
        await s.g.R(0)
        base = s.state()[0]
        await s.new_records()
        for start, batch in (
            (-1, (100, 109, 0, 1)),
            (-1, (110, 119, 1, 2)),
            (-1, (120, 129, 2, 0)),
            (-1, (100, 109, 2, 1)),
            (110, (120, 129, 2, 1)),
        ):
            assert (await s.g.W(0, 0, start, 0, [batch])).error_code == 0
        records = await s.new_records()
        assert [type(record) for record in records] == [StateSnapshot] * 5
        assert base == 0
        snapshot_epoch, _, _, start, _, batches = s.state()
        assert snapshot_epoch == 5
        assert start == 110
        assert batches == [(110, 119, 1, 2), (120, 129, 2, 1)]


@scenario("SC-S14")
async def test_two_updates_then_a_snapshot():
    async with scene(updates_per_snapshot=2) as s:
        await s.g.I(0, 0)
        await s.new_records()
        for offset in range(4):
            await s.g.W(0, 0, 0, 0, [(offset, offset, 2, 1)])
        records = await s.new_records()
        assert [type(record) for record in records] == [
            StateUpdate,
            StateUpdate,
            StateSnapshot,
            StateUpdate,
        ]
        assert records[2].snapshot_epoch == 1
        assert tuples(records[2].batches) == [(0, 2, 2, 1)]


@scenario("SC-S16")
async def test_a_new_initialization_discards_the_old_state():
    async with scene(updates_per_snapshot=0) as s:
        await s.g.I(2, 0)
        for _ in range(3):
            await s.g.W(2, 0, 0, 0, [(0, 10, 2, 1)])
        assert s.state() == (3, 2, 0, 0, 0, [(0, 10, 2, 1)])
        assert (await s.g.I(7, 4)).error_code == 0
        assert s.state() == (4, 7, 0, 4, 0, [])


@scenario("SC-S17")
async def test_delete():
    async with scene() as s:
        await s.g.I(0, 0)
        await s.new_records()
        assert (await s.g.D()).error_code == 0
        [tombstone] = await s.new_records()
        assert isinstance(tombstone, Tombstone)
        assert tombstone.key == KEY
        assert s.state() is None
        assert (await s.g.D()).error_code == 0
        assert await s.new_records() == []
        assert (await s.g.R(0)).error_code == 42


@scenario("SC-S19")
async def test_deleted_topics():
    async with scene() as s:
        for topic in (T1, T2):
            for partition in (0, 1):
                await Client(s.service, topic_id=topic, partition=partition).I(0, 0)
        await s.new_records()
        await s.world.delete_topic(T1)
        await s.world.clock.settle()
        records = await s.new_records()
        assert all(isinstance(record, Tombstone) for record in records)
        assert sorted((r.key.topic_id, r.key.partition) for r in records) == [(T1, 0), (T1, 1)]
        await s.world.create_topic(b"\3" * 16)  # a change without deletions
        await s.world.clock.settle()
        assert await s.new_records() == []


@scenario("SC-S20")
def test_key_texts():
    topic = format_key(KEY).split(":")[1]
    for text, group, partition in (
        (f"abc:de:{topic}:0", "abc:de", 0),
        (f"a:b:c:d:{topic}:5", "a:b:c:d", 5),
        (f":mygroup:{topic}:2", ":mygroup", 2),
        (f"mygroup::{topic}:4", "mygroup:", 4),
    ):
        assert parse_key(text) == SharePartitionKey(GroupId(group), T1, partition)
    for text in (None, "", "onlytwo:parts", f":{topic}:0", "g:bad:0", f"g:{topic}:x"):
        with pytest.raises(RefusedError):
            parse_key(text)


@scenario("SC-S22")
async def test_nothing_asked_not_started_and_a_failing_shard():
    item = pb.WritePartitionState(partition=0)
    async with scene() as s:
        for request in (
            pb.WriteShareGroupStateRequest(group_id="g1"),
            pb.WriteShareGroupStateRequest(group_id="g1", topics=[pb.WriteTopicState(topic_id=T1)]),
            pb.WriteShareGroupStateRequest(
                topics=[pb.WriteTopicState(topic_id=T1, partitions=[item])]
            ),
        ):
            assert not (await s.service.write(request, CONTEXT)).results
    async with world() as w, coordinator(w, started=False) as service:
        g = Client(service)
        answers = [await g.I(0, 0), await g.R(0), await g.W(0, 0, 0, 0), await g.D(), await g.S()]
        assert [answer.error_code for answer in answers] == [15] * 5
    async with world(state_shards=2, topics=(T1,)) as w, coordinator(w, shards=(0, 1)) as service:
        keys = [SharePartitionKey(GroupId("g1"), T1, p) for p in range(4)]
        shard_of = {key.partition: w.view.share_shard(key) for key in keys}
        assert set(shard_of.values()) == {0, 1}
        w.disk.failing_syncs.append(f"{shard_log_path('state', 1)}/")
        request = pb.InitializeShareGroupStateRequest(
            group_id="g1",
            topics=[
                pb.InitializeTopicState(
                    topic_id=T1,
                    partitions=[pb.InitializePartitionState(partition=p) for p in range(4)],
                )
            ],
        )
        [topic] = (await service.initialize(request, CONTEXT)).results
        codes = {p.partition: p.error_code for p in topic.partitions}
        assert codes == {
            p: ErrorCode.COORDINATOR_NOT_AVAILABLE if shard_of[p] else 0 for p in codes
        }


@scenario("SC-S23")
async def test_old_leaders_stay_fenced_over_a_new_initialization():
    async with scene() as s:
        await s.g.I(0, 0)
        await s.g.R(5)
        await s.g.I(9, 0)
        assert s.state()[2] == 0
        assert (await s.g.W(9, 4, 0, 0, [(0, 1, 0, 1)])).error_code == 74
        await s.new_records()  # and after a reload
        assert (await s.g.W(9, 4, 0, 0, [(0, 1, 0, 1)])).error_code == 74


class FailingDeletes:
    """The real shard logs, of which the next ``failing`` deletes fail."""

    def __init__(self, logs):
        self.logs = logs
        self.failing = 0

    async def open(self, name, shard, epoch):
        log = await self.logs.open(name, shard, epoch)
        delete = log.delete_before

        async def delete_before(offset):
            if self.failing:
                self.failing -= 1
                raise LogFullError("no space for the marker")
            await delete(offset)

        log.delete_before = delete_before
        return log


@asynccontextmanager
async def deletes_that_fail(w):
    w.logs = FailingDeletes(w.logs)
    yield w.logs


@scenario("SC-S26")
async def test_the_pruning_task():
    settings = {"updates_per_snapshot": 0, "cold_snapshot_interval_ms": 10**9}
    async with (
        world(state_shards=2, topics=(T1, T2)) as w,
        deletes_that_fail(w) as logs,
        coordinator(w, shards=(0, 1), **settings) as service,
    ):
        keys = {}
        for partition in range(4):
            key = SharePartitionKey(GroupId("g1"), T1, partition)
            keys.setdefault(w.view.share_shard(key), Client(service, partition=partition))
        p0, p1 = service.shards.shard(0), service.shards.shard(1)
        markers = []
        w.disk.before = lambda op, path: markers.append(path) if op == "append" else None

        async def write_up_to(count):
            while p0.committed_end_offset < count:
                await keys[0].W(0, 0, p0.committed_end_offset, 0)
            markers.clear()

        await keys[1].I(0, 0)
        await keys[0].I(0, 0)
        await write_up_to(21)  # the last snapshot lies at 20
        await w.clock.advance(299_999)
        assert p0.log_start_offset == 0
        await w.clock.advance(1)
        assert (p0.log_start_offset, p1.log_start_offset) == (20, 0)
        assert len(markers) == 1
        await w.clock.advance(300_000)
        assert (p0.log_start_offset, p1.log_start_offset) == (20, 0)
        assert len(markers) == 1  # not repeated
        await write_up_to(31)
        logs.failing = 1
        await w.clock.advance(300_000)
        assert (p0.log_start_offset, p1.log_start_offset) == (20, 0)
        assert logs.failing == 0
        await w.clock.advance(300_000)
        assert (p0.log_start_offset, p1.log_start_offset) == (30, 0)
