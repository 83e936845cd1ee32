"""ShareFetch and ShareAcknowledge over the in-process network, real log, real machine."""

import asyncio

from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.cluster.store import records
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import NodeId
from sharemesh.ports.cluster import NodeInfo, Role
from sharemesh.ports.coordination import Put
from tests.share_leader.world import (
    FOO,
    TopicPartition,
    ack,
    acquired,
    parts,
    until,
    world,
)

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)


async def test_produced_records_are_fetched_acknowledged_and_gone():
    async with world() as w:
        epoch = await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 10)
        await m1.join(P0)
        response = await m1.fetch()
        assert response.error_code == 0, response
        assert acquired(response, P0) == [(0, 9, 1)]
        assert response.acquisition_lock_timeout_ms == 30_000
        assert parts(response)[P0].leader_epoch == epoch
        answer = await m1.acknowledge(ack(P0, 0, 9, 1, epoch=epoch))
        assert parts(answer)[P0].error_code == 0
        await w.produce(P0, 10)
        assert acquired(await m1.fetch(), P0) == [(10, 19, 1)]
        ((_, write),) = w.keeper.writes
        assert [(b.first_offset, b.last_offset, b.delivery_state) for b in write.batches] == [
            (0, 9, 2)
        ]


async def test_a_long_poll_ends_as_soon_as_records_arrive():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        waiting = asyncio.create_task(m1.fetch(P0, max_wait_ms=10_000))
        await w.clock.settle()
        assert not waiting.done()
        await w.produce(P0, 3)
        assert acquired(await waiting, P0) == [(0, 2, 1)]


async def test_a_long_poll_ends_empty_at_max_wait():
    async with world() as w:
        await w.lead(P0)
        waiting = asyncio.create_task(w.client().fetch(P0, max_wait_ms=700))
        await w.clock.advance(699)
        assert not waiting.done()
        await w.clock.advance(1)
        response = await waiting
        assert (response.error_code, acquired(response, P0)) == (0, [])


async def test_an_expired_lock_gives_the_record_to_another_member():
    async with world() as w:
        await w.lead(P0)
        m1, m2 = w.client("m1"), w.client("m2")
        await w.produce(P0, 5)
        await m1.join(P0)
        await m1.fetch()
        waiting = asyncio.create_task(m2.fetch(P0, max_wait_ms=30_000))
        await w.clock.advance(29_000)
        assert not waiting.done()
        await w.clock.advance(1_000)
        assert acquired(await waiting, P0) == [(0, 4, 2)]
        assert w.service.counters.locks_expired == 5
        # Nobody heard of m1 for the lock duration: its session is gone with its locks.
        assert (await m1.acknowledge(ack(P0, 0, 4, 1))).error_code == 122


async def test_an_acknowledgement_is_answered_only_after_its_write_is_durable():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 5)
        await m1.join(P0)
        await m1.fetch()
        w.keeper.open.clear()
        waiting = asyncio.create_task(m1.acknowledge(ack(P0, 0, 4, 1)))
        await w.clock.settle()
        assert len(w.keeper.writes) == 1
        assert not waiting.done()
        w.keeper.open.set()
        assert parts(await waiting)[P0].error_code == 0


async def test_a_refused_write_leaves_the_records_with_their_holder():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 5)
        await m1.join(P0)
        await m1.fetch()
        w.keeper.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert parts(await m1.acknowledge(ack(P0, 0, 4, 1)))[P0].error_code == 15
        w.keeper.write_error = ErrorCode.NONE
        assert parts(await m1.acknowledge(ack(P0, 0, 4, 1)))[P0].error_code == 0


async def test_a_fenced_write_drops_the_share_partition_and_the_next_fetch_reads_it_again():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 5)
        await m1.join(P0)
        await m1.fetch()
        key = w.runner(P0).key
        w.keeper.initialize(key, state_epoch=7, start_offset=2)
        assert parts(await m1.acknowledge(ack(P0, 0, 4, 1)))[P0].error_code == 6
        assert w.runner(P0) is None
        assert parts(await m1.acknowledge(ack(P0, 0, 4, 1)))[P0].error_code == 3
        assert acquired(await m1.fetch(max_wait_ms=1_000), P0) == [(2, 4, 1)]


async def test_acknowledgements_of_another_leader_epoch_are_refused():
    async with world() as w:
        epoch = await w.lead(P0, epoch=5)
        m1 = w.client()
        await w.produce(P0, 5)
        await m1.join(P0)
        await m1.fetch()
        assert parts(await m1.acknowledge(ack(P0, 0, 4, 1, epoch=4)))[P0].error_code == 121
        answer = await m1.acknowledge(ack(P0, 0, 4, 1, epoch=6))
        assert parts(answer)[P0].error_code == 6
        assert parts(answer)[P0].current_leader.leader_epoch == epoch
        assert parts(await m1.acknowledge(ack(P0, 0, 4, 1, epoch=5)))[P0].error_code == 0


async def test_a_partition_led_elsewhere_is_answered_with_its_leader():
    async with world() as w:
        await w.lead(P0)
        await w.claim("leader-2", P1, 9)
        response = await w.client().fetch(P0, P1, max_wait_ms=0)
        entry = parts(response)[P1]
        assert (response.error_code, entry.error_code) == (0, 6)
        assert (entry.current_leader.leader_id, entry.current_leader.leader_epoch) == (
            "leader-2",
            9,
        )
        assert [(n.node_id, n.port) for n in response.node_endpoints] == [("leader-2", 9000)]


async def test_a_node_is_told_with_all_its_roles_wherever_a_client_is_sent_to_it():
    async with world() as w:
        await w.claim("leader-2", P1, 9)
        both = (Role.SHARE_LEADER, Role.GROUP_COORDINATOR)
        node = NodeInfo(NodeId("leader-2"), "leader-2", 9000, both)
        await w.write(
            Put(w.view.keys.member(node.node_id), records.encode_member(node)),
            until=lambda: w.view.leader(P1).node.roles == both,
        )
        [told] = (await w.client().fetch(P1)).node_endpoints
        assert told.role == "share-leader,group-coordinator"


async def test_losing_the_log_to_another_owner_ends_the_epoch_and_nothing_is_granted():
    """PER-10."""
    async with world() as w:
        await w.lead(P0, epoch=1)
        ended = []
        w.service.on_ended(ended.append)
        m1 = w.client()
        await w.produce(P0, 5)
        await m1.join(P0)
        other = EmbeddedRecordLogs(w.disk, w.clock, LogSettings())
        taken = await other.open(P0, 2)
        assert parts(await m1.fetch())[P0].error_code == 6
        assert ended == [P0]
        await taken.close()


async def test_read_state_errors_are_answered_for_the_partition_and_tried_again_later():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 5)
        w.keeper.read_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert parts(await m1.fetch(P0, max_wait_ms=1_000))[P0].error_code == 15
        w.keeper.read_error = ErrorCode.NONE
        assert acquired(await m1.fetch(max_wait_ms=1_000), P0) == [(0, 4, 1)]


async def test_an_initialization_that_never_ends_gives_an_empty_answer_at_max_wait():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 5)
        w.keeper.open.clear()
        waiting = asyncio.create_task(w.client().fetch(P0, max_wait_ms=500))
        await w.clock.advance(500)
        response = await waiting
        assert (response.error_code, acquired(response, P0)) == (0, [])
        assert parts(response)[P0].error_code == 0
        w.keeper.open.set()


async def test_decoded_records_are_the_acquired_ones_with_their_delivery_count():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 3)
        await m1.join(P0)
        response = await m1.fetch(record_format=1)
        (entry,) = parts(response).values()
        assert not entry.records
        assert [(r.offset, r.value, r.delivery_count) for r in entry.decoded_records] == [
            (n, b"v%d" % n, 1) for n in range(3)
        ]


async def test_a_group_without_sessions_leaves_no_share_partition_behind():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 5)
        m1, m2 = w.client("m1"), w.client("m2")
        await m1.join(P0)
        await m2.join(P0)
        await m1.fetch()
        await m1.fetch(epoch=-1)
        await until(lambda: not w.runner(P0).holds_locks)
        assert acquired(await m2.fetch(), P0) == [(0, 4, 2)]
        await m2.fetch(epoch=-1)
        await until(lambda: w.runner(P0) is None)


async def five_held(w):
    await w.lead(P0)
    await w.produce(P0, 5)
    m1 = w.client("m1")
    await m1.join(P0)
    assert acquired(await m1.fetch(), P0) == [(0, 4, 1)]


async def test_a_group_without_sessions_stays_while_a_state_is_written_and_counts_go_on():
    async with world() as w:
        await five_held(w)
        w.keeper.open.clear()  # the state of locks that expire is on its way, and stays there
        await w.clock.advance(60_000)
        assert w.service.counters.sessions_evicted == 1
        runner = w.runner(P0)
        assert not runner.holds_locks
        assert not runner.is_settled
        m2 = w.client("m2")
        await m2.join(P0)
        assert acquired(await m2.fetch(), P0) == [(0, 4, 2)]
        w.keeper.open.set()
        await m2.fetch(epoch=-1)
        await w.clock.advance(2_000)
        await until(lambda: w.runner(P0) is None)


async def test_what_expired_locks_left_is_stored_as_soon_as_the_share_coordinator_answers():
    async with world() as w:
        await five_held(w)
        w.keeper.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        await w.clock.advance(60_000)
        runner = w.runner(P0)
        assert not runner.is_settled
        w.keeper.write_error = ErrorCode.NONE
        await w.clock.advance(7_000)
        await until(lambda: w.runner(P0) is None)  # stored, and so no longer needed
        (batch,) = w.keeper.machine.state(runner.key).batches
        assert (batch.first_offset, batch.last_offset, batch.delivery_count) == (0, 4, 1)
        m2 = w.client("m2")
        await m2.join(P0)
        assert acquired(await m2.fetch(), P0) == [(0, 4, 2)]


async def test_read_committed_groups_get_no_aborted_records():
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest", isolation_level="read_committed")
        await w.lead(P0)
        await w.produce(P0, 5)
        m1 = w.client()
        await m1.join(P0)
        assert acquired(await m1.fetch(), P0) == [(0, 4, 1)]


async def test_settings_of_the_group_hold_from_the_moment_they_change():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 5)
        m1 = w.client()
        await m1.join(P0)
        await w.configure("g", record_lock_duration_ms=20_000)
        await w.clock.advance(50)
        response = await m1.fetch()
        assert response.acquisition_lock_timeout_ms == 20_000
        assert w.runner(P0).machine.next_deadline_ms == w.clock.now_ms() + 20_000
