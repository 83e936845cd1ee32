"""The share consumer's rules (spec CL) over the network port."""

import asyncio

import pytest

from sharemesh.client import AcknowledgeType, AsyncShareConsumer
from sharemesh.client.errors import (
    ConcurrentModificationError,
    CorruptRecordError,
    GroupMaxSizeReachedError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidRecordStateError,
    InvalidTopicError,
    RecordDeserializationError,
    WakeupError,
)
from sharemesh.codec.client_batches import BatchWriter
from tests.client.mini_cluster import MiniCluster

EXPLICIT = {"share.acknowledgement.mode": "explicit"}


async def consumer_of(cluster: MiniCluster, **config) -> AsyncShareConsumer:
    settings = {**cluster.config, "group.id": "g", "retry.backoff.ms": 10}
    settings.update({name.replace("_", "."): value for name, value in config.items()})
    consumer = AsyncShareConsumer(settings, environment=cluster.environment())
    await consumer.subscribe(["t"])
    return consumer


async def explicit_of(cluster: MiniCluster, **config) -> AsyncShareConsumer:
    return await consumer_of(cluster, share_acknowledgement_mode="explicit", **config)


async def until(condition, *, timeout_s: float = 5.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


async def test_implicit_mode_accepts_with_the_next_poll():
    cluster = MiniCluster()
    cluster.append(b"x", b"y")
    async with await consumer_of(cluster) as consumer:
        records = await consumer.poll(5_000)
        assert [(r.offset, r.value, r.delivery_count) for r in records] == [
            (0, b"x", 1),
            (1, b"y", 1),
        ]
        assert consumer.acquisition_lock_timeout_ms() == 30_000
        assert await consumer.poll(100) == []
        await until(lambda: cluster.states() == ["accepted", "accepted"])
    assert cluster.acknowledged == [(0, 0, 1, [1])]
    assert cluster.members == {}
    assert cluster.closes


async def test_close_in_implicit_mode_releases_and_does_not_accept():
    cluster = MiniCluster()
    cluster.append(b"x")
    consumer = await consumer_of(cluster)
    assert await consumer.poll(5_000)
    await consumer.close()
    assert cluster.states() == ["available"]
    other = await consumer_of(cluster)
    assert [r.delivery_count for r in await other.poll(5_000)] == [2]
    await other.close()


async def test_explicit_mode_demands_an_acknowledgement_of_every_record():
    cluster = MiniCluster()
    cluster.append(b"x", b"y")
    async with await explicit_of(cluster) as consumer:
        first, second = await consumer.poll(5_000)
        consumer.acknowledge(first)
        with pytest.raises(IllegalStateError, match="All records must be acknowledged"):
            await consumer.poll(10)
        consumer.acknowledge(second, AcknowledgeType.RELEASE)
        consumer.acknowledge(second, AcknowledgeType.REJECT)
        assert await consumer.poll(50) == []
        with pytest.raises(IllegalStateError, match="The record cannot be acknowledged"):
            consumer.acknowledge(first)
    assert cluster.states() == ["accepted", "rejected"]


async def test_acknowledge_is_refused_in_implicit_mode():
    cluster = MiniCluster()
    cluster.append(b"x")
    async with await consumer_of(cluster) as consumer:
        (record,) = await consumer.poll(5_000)
        with pytest.raises(IllegalStateError, match="Implicit acknowledgement"):
            consumer.acknowledge(record)


async def test_commit_sync_returns_results_by_partition_once():
    cluster = MiniCluster()
    cluster.append(b"x", b"y", b"z")
    async with await explicit_of(cluster) as consumer:
        calls = []
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: calls.append((list(offsets.values()), error))
        )
        records = await consumer.poll(5_000)
        for record in records[:2]:
            consumer.acknowledge(record)
        await consumer.commit_async()
        assert await consumer.commit_sync(1_000) == {}
        await until(lambda: cluster.states()[:2] == ["accepted", "accepted"])
        consumer.acknowledge(records[2])
        result = await consumer.commit_sync(1_000)
        assert [(str(k), v) for k, v in result.items()] == [("t/0", None)]
        assert calls == [([{0, 1}], None), ([{2}], None)]


async def test_commit_sync_puts_errors_into_the_map():
    cluster = MiniCluster()
    cluster.append(b"x")
    cluster.refuse_acknowledge = [121]
    async with await consumer_of(cluster) as consumer:
        await consumer.poll(5_000)
        (error,) = (await consumer.commit_sync(1_000)).values()
        assert isinstance(error, InvalidRecordStateError)


async def test_commit_sync_tries_passing_refusals_again():
    cluster = MiniCluster()
    cluster.append(b"x")
    cluster.refuse_acknowledge = [14, 15, 7]
    async with await consumer_of(cluster) as consumer:
        await consumer.poll(5_000)
        assert list((await consumer.commit_sync(5_000)).values()) == [None]
        assert cluster.states() == ["accepted"]


async def test_commit_sync_and_close_keep_their_timeout_when_the_leader_is_silent():
    cluster = MiniCluster()
    cluster.append(b"x")
    consumer = await explicit_of(cluster)
    (record,) = await consumer.poll(5_000)
    consumer.acknowledge(record)
    cluster.stall_acknowledge = True
    loop = asyncio.get_running_loop()
    began = loop.time()
    (error,) = (await consumer.commit_sync(200)).values()
    assert error.code.name == "REQUEST_TIMED_OUT"
    assert loop.time() - began < 0.3
    began = loop.time()
    await consumer.close(200)
    assert loop.time() - began < 0.3


async def test_a_record_that_cannot_be_deserialized_is_released_unless_overridden():
    cluster = MiniCluster()
    cluster.append(b"1", b"2", b"x")

    def number(data: bytes) -> int:
        return int(data)

    async with await explicit_of(cluster, value_deserializer=number) as consumer:
        records = await consumer.poll(5_000)
        assert [r.value for r in records] == [1, 2]
        for record in records:
            consumer.acknowledge(record)
        for count in (1, 2):
            with pytest.raises(RecordDeserializationError) as caught:
                await consumer.poll(5_000)
            assert caught.value.offset == 2
            if count == 1:
                with pytest.raises(IllegalStateError):
                    consumer.acknowledge_offset("t", 0, 1, AcknowledgeType.REJECT)
                with pytest.raises(IllegalStateError):
                    consumer.acknowledge_offset("t", 1, 2, AcknowledgeType.REJECT)
                await consumer.commit_sync(1_000)
        assert cluster.counts()[2] == 2
        consumer.acknowledge_offset("t", 0, 2, AcknowledgeType.REJECT)
        await consumer.commit_sync(1_000)
        with pytest.raises(IllegalStateError):
            consumer.acknowledge_offset("t", 0, 2, AcknowledgeType.RELEASE)
        assert await consumer.poll(50) == []
    assert cluster.states() == ["accepted", "accepted", "rejected"]


async def test_a_corrupt_batch_is_rejected_unless_overridden():
    cluster = MiniCluster()
    writer = BatchWriter("none", 1_000)
    writer.append(1, b"k", b"v", ())
    writer.append(1, b"k", b"v", ())
    data = bytearray(writer.finish(None))
    data[-1] ^= 1
    cluster.append_raw(bytes(data), 2)
    async with await explicit_of(cluster) as consumer:
        with pytest.raises(CorruptRecordError) as caught:
            await consumer.poll(5_000)
        assert (caught.value.offset, caught.value.last_offset) == (0, 1)
        for offset in (0, 1):
            consumer.acknowledge_offset("t", 0, offset, AcknowledgeType.RELEASE)
        with pytest.raises(CorruptRecordError):
            await consumer.poll(5_000)
        await consumer.commit_sync(1_000)
    assert cluster.states() == ["rejected", "rejected"]


async def test_offsets_without_records_are_acknowledged_as_gaps():
    cluster = MiniCluster()
    writer = BatchWriter("none", 1_000)
    writer.append(1, b"k", b"v", ())
    control = bytearray(writer.finish(None))
    control[22] |= 0x20  # a control batch; its checksum covers this byte
    cluster.append_raw(bytes(control), 1)
    async with await consumer_of(cluster, check_crcs="false") as consumer:
        async with asyncio.timeout(20):
            while cluster.states() != ["gap"]:  # the first poll may be over before the batch comes
                assert await consumer.poll(300) == []
    assert cluster.acknowledged == [(0, 0, 0, [0])]


@pytest.mark.parametrize("mode", ["record_limit", "batch_optimized"])
async def test_a_poll_never_returns_more_than_max_poll_records(mode):
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 12)
    async with await consumer_of(cluster, max_poll_records=5, share_acquire_mode=mode) as consumer:
        polls = [await consumer.poll(5_000) for _ in range(3)]
    assert [[record.offset for record in records] for records in polls] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
        [10, 11],
    ]


async def test_wakeup_raises_once_and_loses_nothing():
    cluster = MiniCluster()
    cluster.append(b"x")
    async with await consumer_of(cluster) as consumer:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await consumer.poll(5_000)
        assert len(await consumer.poll(5_000)) == 1
        polling = asyncio.ensure_future(consumer.poll(60_000))
        await asyncio.sleep(0)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await polling


async def test_renewed_records_come_again_before_anything_new():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 10)
    told = []
    async with await explicit_of(cluster) as consumer:
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: told.extend(*offsets.values())
        )
        records = await consumer.poll(5_000)
        for record in records:
            kind = AcknowledgeType.RENEW if record.offset % 2 else AcknowledgeType.ACCEPT
            consumer.acknowledge(record, kind)
        cluster.append(b"new")
        assert await consumer.poll(100) == []
        again = await consumer.poll(100)
        assert [(r.offset, r.delivery_count) for r in again] == [(n, 1) for n in (1, 3, 5, 7, 9)]
        for record in again:
            consumer.acknowledge(record)
        assert list((await consumer.commit_sync(1_000)).values()) == [None]
        assert len(told) == 15
        assert [r.value for r in await consumer.poll(5_000)] == [b"new"]
        consumer.acknowledge(_only(consumer))


def _only(consumer):
    (held,) = consumer._calls.state._held
    return next(iter(held.records.values()))


async def test_a_renewal_done_by_commit_is_returned_by_the_next_poll_at_once():
    cluster = MiniCluster(lock_ms=15_000)
    cluster.append(b"x", b"y")
    async with await explicit_of(cluster) as consumer:
        first, second = await consumer.poll(5_000)
        consumer.acknowledge(first)
        cluster.lock_ms = 25_000
        consumer.acknowledge(second, AcknowledgeType.RENEW)
        assert list((await consumer.commit_sync(1_000)).values()) == [None]
        assert consumer.acquisition_lock_timeout_ms() == 15_000
        assert [r.offset for r in await consumer.poll(60_000)] == [1]
        assert consumer.acquisition_lock_timeout_ms() == 25_000
        consumer.acknowledge(second)


async def test_a_refused_renewal_drops_the_record():
    cluster = MiniCluster()
    cluster.append(b"x")
    cluster.renew_error = 121
    async with await explicit_of(cluster) as consumer:
        (record,) = await consumer.poll(5_000)
        consumer.acknowledge(record, AcknowledgeType.RENEW)
        (error,) = (await consumer.commit_sync(1_000)).values()
        assert isinstance(error, InvalidRecordStateError)
        assert await consumer.poll(50) == []


async def test_a_late_acknowledgement_fails_and_the_record_comes_again():
    cluster = MiniCluster(lock_ms=150)
    cluster.append(b"x")
    errors = []
    async with await consumer_of(cluster) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: errors.append(error))
        assert [r.delivery_count for r in await consumer.poll(5_000)] == [1]
        await until(lambda: cluster.states() == ["available"])
        assert [r.delivery_count for r in await consumer.poll(5_000)] == [2]
        assert isinstance(errors[0], InvalidRecordStateError)
        assert await consumer.poll(50) == []
        await until(lambda: cluster.states() == ["accepted"])


async def test_callback_may_not_call_the_consumer_and_its_errors_surface():
    cluster = MiniCluster()
    cluster.append(b"x", b"y", batched=False)
    async with await consumer_of(cluster, max_poll_records=1) as consumer:
        seen = []

        def callback(offsets, error):
            try:
                consumer.acknowledge(None)
            except IllegalStateError as refused:
                seen.append(refused)
            consumer.wakeup()
            raise RuntimeError("mine")

        consumer.set_acknowledgement_commit_callback(callback)
        await consumer.poll(5_000)
        with pytest.raises(RuntimeError, match="mine"):
            await consumer.commit_sync(1_000)
        assert seen
        consumer.set_acknowledgement_commit_callback(None)
        with pytest.raises(WakeupError):
            await consumer.poll(5_000)


async def test_wrong_use_is_refused():
    cluster = MiniCluster()
    consumer = await consumer_of(cluster)
    for wrong in (None, "t", [None], ["t", " "]):
        with pytest.raises(IllegalArgumentError):
            await consumer.subscribe(wrong)
    with pytest.raises(IllegalArgumentError):
        await consumer.close(-1)
    polling = asyncio.ensure_future(consumer.poll(300))
    await asyncio.sleep(0)
    with pytest.raises(ConcurrentModificationError):
        await consumer.poll(0)
    await polling
    await consumer.subscribe(["to pic"])
    with pytest.raises(InvalidTopicError):
        await consumer.poll(0)
    await consumer.subscribe([])
    assert consumer.subscription() == frozenset()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        await consumer.poll(0)
    await consumer.close()
    await consumer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        await consumer.poll(0)


async def test_a_moved_leader_is_followed():
    cluster = MiniCluster(partitions=2)
    async with await consumer_of(cluster) as consumer:
        cluster.append(b"x", partition=0)
        assert [r.value for r in await consumer.poll(5_000)] == [b"x"]
        cluster.move(0, "b")
        cluster.append(b"y", partition=0)
        got = []
        async with asyncio.timeout(5):
            while b"y" not in got:
                got += [r.value for r in await consumer.poll(200)]


async def test_a_drain_notice_is_followed_and_held_records_stay_acknowledgeable():
    cluster = MiniCluster()
    cluster.append(b"x")
    async with await explicit_of(cluster) as consumer:
        (record,) = await consumer.poll(5_000)
        cluster.drain(0)
        await until(lambda: 0 in cluster.draining)
        consumer.acknowledge(record)
        assert list((await consumer.commit_sync(1_000)).values()) == [None]
        cluster.draining.clear()
        cluster.move(0, "b")
        cluster.append(b"y")
        assert [r.value for r in await consumer.poll(5_000)] == [b"y"]
        consumer.acknowledge(_only(consumer))


async def test_a_draining_partition_is_added_ahead_where_it_goes():
    cluster = MiniCluster()
    cluster.append(b"x")
    async with await consumer_of(cluster) as consumer:
        assert [r.value for r in await consumer.poll(5_000)] == [b"x"]
        polling = asyncio.create_task(consumer.poll(5_000))
        await until(lambda: ("a", 0) in cluster.added)
        cluster.drain(0, to="b")
        await until(lambda: ("b", 0) in cluster.added)
        cluster.append(b"y")
        cluster.move(0, "b")
        assert [r.value for r in await polling] == [b"y"]
        assert cluster.added.count(("b", 0)) == 1


async def test_a_next_leader_that_was_named_and_refuses_is_left_for_the_one_that_leads():
    cluster = MiniCluster()
    cluster.append(b"x")
    async with await consumer_of(cluster) as consumer:
        assert [r.value for r in await consumer.poll(5_000)] == [b"x"]
        polling = asyncio.create_task(consumer.poll(5_000))
        cluster.drain(0, to="b")
        await until(lambda: ("b", 0) in cluster.added)
        cluster.next_leaders.clear()  # now b refuses it
        cluster.draining.clear()
        cluster.append(b"y")
        cluster.move(0, "a")
        assert [r.value for r in await polling] == [b"y"]


async def test_a_lost_connection_starts_a_new_session():
    cluster = MiniCluster()
    cluster.append(b"x")
    async with await consumer_of(cluster) as consumer:
        await consumer.poll(5_000)
        await cluster.network.disconnect("a:1")
        (error,) = (await consumer.commit_sync(1_000)).values()
        assert error is not None
        assert [r.delivery_count for r in await consumer.poll(5_000)] == [2]


@pytest.mark.parametrize("code", [25, 110])
async def test_a_fenced_member_joins_again(code):
    cluster = MiniCluster()
    async with await consumer_of(cluster) as consumer:
        await consumer.poll(50)
        await until(lambda: (consumer.member_id, 2) in cluster.heartbeats)
        cluster.heartbeats.clear()
        cluster.heartbeat_errors = [code]
        cluster.append(b"x")
        await until(lambda: (consumer.member_id, 0) in cluster.heartbeats)
        assert await consumer.poll(5_000)


async def test_a_full_group_is_fatal_to_poll():
    cluster = MiniCluster()
    cluster.heartbeat_errors = [81]
    async with await consumer_of(cluster) as consumer:
        for _ in range(2):
            with pytest.raises(GroupMaxSizeReachedError):
                await consumer.poll(5_000)


async def test_membership_falls_back_to_single_calls():
    cluster = MiniCluster()
    cluster.has_heartbeat_stream = False
    for node in ("a", "b"):
        await cluster.network.listener(f"{node}:1").stop()
        cluster.listen(node)
    cluster.append(b"x")
    async with await consumer_of(cluster) as consumer:
        assert await consumer.poll(5_000)
        await until(lambda: len(cluster.heartbeats) > 2)


async def test_unsubscribe_leaves_and_subscribe_joins_again():
    cluster = MiniCluster()
    cluster.append(b"x")
    async with await consumer_of(cluster) as consumer:
        assert await consumer.poll(5_000)
        await consumer.unsubscribe()
        assert cluster.members == {}
        assert cluster.states() == ["available"]
        await consumer.subscribe(["t"])
        assert [r.delivery_count for r in await consumer.poll(5_000)] == [2]
