"""The leader with the real persister and a real share coordinator, in one process."""

import asyncio
import random
from contextlib import asynccontextmanager

from sharemesh import methods
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import election_name
from sharemesh.domain.ids import GroupId, NodeId, SharePartitionKey
from sharemesh.persister.persister import Persister
from sharemesh.ports.cluster import NodeInfo, Role, ShardKind
from sharemesh.ports.coordination import Put
from sharemesh.share_coordinator.service import ShareCoordinatorService
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.v1 import share_leader_pb2
from tests.share_leader.world import FOO, LEADER, TopicPartition, ack, acquired, parts, world

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)


@asynccontextmanager
async def mesh():
    async with world(started=False, manual=False) as w:
        node = NodeInfo(NodeId("sc"), "sc", 1, (Role.SHARE_COORDINATOR,))
        keys = w.view.keys
        election = keys.election(election_name(ShardKind.STATE, 0))
        await w.write(
            Put(keys.member(node.node_id), records.encode_member(node)),
            Put(f"{election}/sc", records.encode_candidate(node.node_id)),
            until=lambda: w.view.share_coordinator(0) == node,
        )
        logs = EmbeddedShardLogs(w.disk, w.clock, LogSettings())
        coordinator = ShareCoordinatorService(w.view, w.clock, logs, ShareCoordinatorSettings())
        coordinator.offer(w.network.listener("sc:1"))
        coordinator.start()
        await coordinator.shards.start_shard(0, 1)
        persister = Persister(w.network.caller(), w.view, w.clock, random.Random(1))
        for partition in (P0, P1):
            key = SharePartitionKey(GroupId("g"), partition.topic_id, partition.partition)
            assert not (await persister.initialize_state(key, 1, 0)).error
        try:
            w.start(persister=persister)
            w.state_shards = coordinator.shards
            yield w
        finally:
            await w.service.close()
            await persister.close()
            await coordinator.close()


async def test_acknowledged_records_stay_so_over_a_change_of_the_leader():
    async with mesh() as w:
        await w.lead(P0, epoch=1)
        m1 = w.client()
        await w.produce(P0, 5, 5, 5)
        await m1.join(P0)
        assert acquired(await m1.fetch(), P0) == [(0, 14, 1)]
        answer = await m1.acknowledge(ack(P0, 0, 4, 1), ack(P0, 5, 9, 2))
        assert parts(answer)[P0].error_code == 0
        await w.service.stop_partition(P0)
        await w.lead(P0, epoch=2)
        m2 = w.client("m2")
        await m2.join(P0)
        got = acquired(await m2.fetch(), P0)
        assert got == [(5, 9, 2), (10, 14, 1)], "released ones count, unacknowledged ones do not"


async def test_an_older_leader_is_fenced_at_the_share_coordinator():
    async with mesh() as w:
        await w.lead(P0, epoch=3)
        m1 = w.client()
        await w.produce(P0, 5)
        await m1.join(P0)
        await m1.fetch()
        newer = Persister(w.network.caller(), w.view, w.clock, random.Random(2))
        key = SharePartitionKey(GroupId("g"), FOO, 0)
        assert not (await newer.read_state(key, 4)).error
        answer = await m1.acknowledge(ack(P0, 0, 4, 1))
        assert parts(answer)[P0].error_code == 6
        await newer.close()


async def test_a_group_that_was_never_initialized_gets_an_error_for_the_partition():
    async with mesh() as w:
        await w.lead(P0)
        stranger = w.client("m1", "never")
        response = await stranger.fetch(P0, max_wait_ms=5_000)
        assert (response.error_code, parts(response)[P0].error_code) == (0, -1)
        assert "uninitialized" in parts(response)[P0].error_message


async def explained(w, offset, group="g"):
    request = share_leader_pb2.ExplainRequest(
        group_id=group, topic_name="foo", partition=0, offset=offset
    )
    return await w.network.caller().call(methods.EXPLAIN, request, to=LEADER)


async def test_exp_1_a_leader_without_memory_of_a_group_says_what_became_of_its_records():
    async with mesh() as w:
        await w.configure("g", delivery_count_limit=2)
        await w.lead(P0, epoch=1)
        m1 = w.client()
        await w.produce(P0, 5)
        await m1.join(P0)
        await m1.fetch()
        await m1.acknowledge(ack(P0, 0, 0, 1), ack(P0, 1, 4, 2))
        assert acquired(await m1.fetch(), P0) == [(1, 4, 2)]
        await m1.acknowledge(ack(P0, 1, 1, 3), ack(P0, 2, 2, 2), ack(P0, 3, 3, 1))
        await w.service.stop_partition(P0)
        await w.lead(P0, epoch=2)
        told = [await explained(w, offset) for offset in range(5)]
        assert [each.reason for each in told] == [
            "ACKNOWLEDGED",
            "REJECTED",  # in its last delivery, and not by the limit
            "ARCHIVED_BY_LIMIT",
            "ACKNOWLEDGED",
            "NO_MEMBER_ASKS",
        ]
        assert [(e.cause, e.member_id, e.delivery_count) for e in told[1].events] == [
            ("INITIALIZE", "", 0),
            ("RELEASE", "m1", 1),
            ("REJECT", "m1", 2),
        ]
        assert "REJECT at " in told[1].explanation
        assert "by member m1" in told[1].explanation
        assert (told[1].delivery_state, told[1].delivery_count) == ("ARCHIVED", 2)
        assert (told[4].delivery_state, told[4].delivery_count) == ("AVAILABLE", 1)
        assert not told[4].HasField("next_fetch_offset")
        assert told[1].events_note == ""


async def test_rty_12_a_leader_without_memory_of_a_group_says_what_is_delayed():
    async with mesh() as w:
        await w.lead(P0, epoch=1)
        m1 = w.client()
        await w.produce(P0, 2)
        await m1.join(P0)
        await m1.fetch()
        await m1.acknowledge(ack(P0, 0, 0, 2, delay_ms=60_000), ack(P0, 1, 1, 2))
        await w.service.stop_partition(P0)
        await w.lead(P0, epoch=2)
        await w.configure("g", paused=True)
        delayed, paused = [await explained(w, offset) for offset in range(2)]
        assert (delayed.reason, paused.reason) == ("DELAYED", "PAUSED")
        assert 0 < delayed.delay_remaining_ms <= 60_000
        assert f"{delayed.delay_remaining_ms:,} ms are left" in delayed.explanation
        assert not paused.HasField("delay_remaining_ms")


async def test_exp_7_of_a_group_that_nothing_is_stored_of_nothing_else_is_said():
    async with mesh() as w:
        await w.lead(P0)
        await w.produce(P0, 5)
        told = await explained(w, 0, group="nosuch")
        assert told.reason == "GROUP_NOT_SEEN"
        known = {field.name for field, _ in told.ListFields()}
        assert known == {"reason", "explanation", "high_watermark", "leader_epoch"}


async def test_per_8_an_acknowledgement_outlives_a_state_log_that_takes_no_writes(monkeypatch):
    async with mesh() as w:
        await w.lead(P0)
        await w.produce(P0, 3)
        member = w.client()
        await member.join(P0)
        await member.fetch()
        log = w.state_shards.shard(0)._log
        monkeypatch.setattr(log, "has_room", lambda more_bytes: False)
        acknowledging = asyncio.ensure_future(member.acknowledge(ack(P0, 0, 2, 1)))
        await asyncio.sleep(0.3)
        assert not acknowledging.done()
        monkeypatch.undo()
        response = await acknowledging
        assert parts(response)[P0].error_code == 0
