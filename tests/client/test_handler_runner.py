"""``run(handler)``: acknowledgement apart from polling, renewal, graceful stop."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import AcknowledgeType, AsyncShareConsumer, RunOptions
from sharemesh.client.consumer.acknowledgement_sender import ACKNOWLEDGE_RETRY_MS
from sharemesh.client.errors import (
    IllegalArgumentError,
    InvalidRecordStateError,
    TopicAuthorizationFailedError,
)
from sharemesh.domain.errors import ErrorCode
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, until


async def test_each_record_is_acknowledged_as_its_handler_says():
    cluster = MiniCluster()
    cluster.append(b"accept", b"reject", b"raise", batched=False)
    complaints = []

    async def handler(record):
        if record.value == b"reject":
            return AcknowledgeType.REJECT
        if record.value == b"raise" and record.delivery_count == 1:
            raise ValueError("no")
        return None

    options = RunOptions(complain=lambda record, error: complaints.append((record.offset, error)))
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=2, options=options))
    await until(lambda: cluster.states() == ["accepted", "rejected", "accepted"])
    consumer.stop()
    await running
    assert cluster.counts() == [1, 1, 2]
    assert [(offset, str(error)) for offset, error in complaints] == [(2, "no")]
    await consumer.close()


async def failing(cluster: MiniCluster, options: RunOptions, *, until_deliveries: int) -> None:
    """Let a handler fail on every record until one of them was delivered so often."""

    async def handler(record):
        raise ValueError("no stock")

    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=2, options=options))
    await until(lambda: max(cluster.counts()) >= until_deliveries)
    consumer.stop()
    await running
    await consumer.close()


async def test_a_failure_is_logged_with_its_traceback_and_then_in_one_line(caplog):
    cluster = MiniCluster()
    cluster.append(b"x")
    await failing(cluster, RunOptions(retry_backoff_ms=1), until_deliveries=4)
    said = [each for each in caplog.records if "the handler failed" in each.message]
    assert [each.message.split(";")[0] for each in said][:3] == [
        f"the handler failed on t/0@0, delivery {n}: ValueError('no stock')" for n in (1, 2, 3)
    ]
    assert [each.exc_info is not None for each in said][:3] == [True, False, False]
    assert "share.delivery.count.limit" in said[0].message


async def test_another_reason_has_a_traceback_of_its_own(caplog):
    cluster = MiniCluster()
    cluster.append(b"x")
    reasons = iter(["one", "two", "two"])

    async def handler(record):
        if (reason := next(reasons, None)) is not None:
            raise ValueError(reason)

    consumer = await consumer_of(cluster)
    options = RunOptions(retry_backoff_ms=1)
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: cluster.states() == ["accepted"])
    consumer.stop()
    await running
    await consumer.close()
    said = [each for each in caplog.records if "the handler failed" in each.message]
    assert [each.exc_info is not None for each in said] == [True, True, False]


@pytest.mark.parametrize("name", ["on_failure", "complain"])
async def test_a_callback_is_told_of_failures_instead_of_the_log(name, caplog):
    cluster = MiniCluster()
    cluster.append(b"x")
    told = []
    options = RunOptions(retry_backoff_ms=1, **{name: lambda *each: told.append(each)})
    await failing(cluster, options, until_deliveries=2)
    assert told[0][0].offset == 0
    assert str(told[0][1]) == "no stock"
    assert "the handler failed" not in caplog.text


def test_both_callbacks_or_a_negative_time_are_refused():
    with pytest.raises(IllegalArgumentError, match="not both"):
        RunOptions(complain=print, on_failure=print)
    with pytest.raises(IllegalArgumentError, match="negative"):
        RunOptions(retry_backoff_ms=-1)


async def test_tries_of_a_record_lie_ever_further_apart():
    cluster = MiniCluster()
    cluster.append(b"x")
    loop = asyncio.get_running_loop()
    tries = []

    async def handler(record):
        tries.append(loop.time())
        if record.delivery_count < 5:
            raise ValueError("not yet")

    consumer = await consumer_of(cluster)
    options = RunOptions(retry_backoff_ms=50, retry_backoff_max_ms=200)
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: cluster.states() == ["accepted"])
    consumer.stop()
    await running
    await consumer.close()
    gaps = [later - sooner for sooner, later in itertools.pairwise(tries)]
    assert all(gap >= least for gap, least in zip(gaps, (0.04, 0.08, 0.16, 0.16), strict=True))


async def test_failed_records_hold_up_no_handler():
    cluster = MiniCluster()
    cluster.append(*[b"bad"] * 5, *[b"good"] * 5, batched=False)

    async def handler(record):
        if record.value == b"bad":
            raise ValueError("bad")

    consumer = await consumer_of(cluster)
    options = RunOptions(retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=1, options=options))
    await until(lambda: cluster.states() == ["acquired"] * 5 + ["accepted"] * 5)
    consumer.stop()
    await running
    assert cluster.states()[:5] == ["available"] * 5  # nobody waits for the back-off at a stop
    await consumer.close()


async def test_a_failed_record_that_waits_keeps_its_lock():
    cluster = MiniCluster(lock_ms=300)
    cluster.append(b"x")
    options = RunOptions(retry_backoff_ms=1_000, retry_backoff_max_ms=1_000)
    await failing(cluster, options, until_deliveries=2)
    kinds = [kind for *_, types in cluster.acknowledged for kind in types]
    assert kinds.index(2) >= 2  # it was renewed more than once before it was released
    assert set(kinds[: kinds.index(2)]) == {4}


async def test_a_failed_record_is_released_before_a_lock_ends_that_is_not_renewed():
    cluster = MiniCluster(lock_ms=400)
    cluster.append(b"x")
    options = RunOptions(renew=False, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    await failing(cluster, options, until_deliveries=3)
    assert [each for *_, each in cluster.acknowledged][:2] == [[2], [2]]


async def test_a_record_that_cannot_be_deserialized_is_told_and_not_tried_again_at_once(caplog):
    cluster = MiniCluster()
    cluster.append(b"x")
    consumer = await consumer_of(cluster, value_deserializer=int)
    options = RunOptions(retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    running = asyncio.ensure_future(consumer.run(_nothing, options=options))
    await until(lambda: "cannot deserialize the value of t/0@0" in caplog.text)
    await asyncio.sleep(0.2)
    assert (cluster.states(), cluster.counts()) == (["acquired"], [1])
    consumer.stop()
    await running
    assert cluster.states() == ["available"]
    await consumer.close()


async def test_a_partition_that_cannot_be_read_for_the_time_being_does_not_end_a_run():
    """The leader had no state: UNKNOWN_SERVER_ERROR is told, what a coordinator says is not."""
    cluster = MiniCluster()
    cluster.append(b"x")
    cluster.refuse_partition = [-1, 15]
    complaints = []
    options = RunOptions(complain=lambda record, error: complaints.append((record, error.code)))
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(_nothing, options=options))
    await until(lambda: cluster.states() == ["accepted"])
    consumer.stop()
    await running
    assert complaints == [(None, ErrorCode.UNKNOWN_SERVER_ERROR)]
    await consumer.close()


@pytest.mark.parametrize("code", [14, 15, 16, 56])
async def test_cl_6_share_state_that_cannot_be_had_now_is_no_error_of_poll(code, caplog):
    cluster = MiniCluster()
    cluster.append(b"x")
    cluster.refuse_partition = [code]
    consumer = await consumer_of(cluster)
    records = []
    while not records:
        records = await consumer.poll(5_000)
    assert not cluster.refuse_partition
    told = [each for each in caplog.messages if "cannot be fetched now" in each]
    assert len(told) == 1
    await consumer.close()


async def test_a_partition_that_is_not_allowed_ends_a_run():
    cluster = MiniCluster()
    cluster.append(b"x")
    cluster.refuse_partition = [29]
    consumer = await consumer_of(cluster)
    with pytest.raises(TopicAuthorizationFailedError):
        await consumer.run(_nothing)
    await consumer.close()


async def _nothing(_):
    return None


class HeldRetries(SystemClock):
    """Real time, but a refused acknowledgement waits until the test lets it be sent again."""

    def __init__(self):
        self.may_go = asyncio.Event()

    async def sleep_ms(self, duration_ms):
        if duration_ms == ACKNOWLEDGE_RETRY_MS:
            await self.may_go.wait()
        else:
            await super().sleep_ms(duration_ms)


async def test_a_word_on_a_lost_lock_is_not_taken_for_one_on_the_record_that_came_anew_cl_36():
    cluster, clock = MiniCluster(), HeldRetries()
    cluster.refuse_acknowledge = [ErrorCode.KAFKA_STORAGE_ERROR]
    cluster.append(b"x")
    begun, told, may_end = asyncio.Queue(), [], asyncio.Event()

    async def handler(record):
        begun.put_nowait(record.delivery_count)
        if record.delivery_count == 1:
            return AcknowledgeType.ACCEPT
        await may_end.wait()
        return AcknowledgeType.REJECT

    settings = {**cluster.config, "group.id": "g"}
    environment = replace(cluster.environment(), clock=clock)
    consumer = AsyncShareConsumer(settings, environment=environment)
    consumer.set_acknowledgement_commit_callback(lambda _, error: told.append(type(error)))
    await consumer.subscribe(["t"])
    running = asyncio.ensure_future(consumer.run(handler))
    assert await begun.get() == 1
    await until(lambda: not cluster.refuse_acknowledge)
    cluster.partitions[0].records[0].state = "available"  # its lock ended
    cluster.notify()
    assert await begun.get() == 2
    clock.may_go.set()
    await until(lambda: told == [InvalidRecordStateError])
    may_end.set()
    await until(lambda: cluster.states() == ["rejected"])
    assert [types for *_, types in cluster.acknowledged] == [[AcknowledgeType.REJECT]]
    consumer.stop()
    await running
    await consumer.close()


async def test_a_slow_record_holds_nothing_back_and_keeps_its_lock():
    cluster = MiniCluster(lock_ms=1_000)  # a busy machine may stand still for a part of it
    cluster.append(*[b"%d" % n for n in range(20)], batched=False)
    go = asyncio.Event()

    async def handler(record):
        if record.offset == 0:
            await go.wait()

    consumer = await consumer_of(cluster)
    told = []
    consumer.set_acknowledgement_commit_callback(
        lambda offsets, error: told.extend((n, error) for each in offsets.values() for n in each)
    )
    running = asyncio.ensure_future(consumer.run(handler, concurrency=3))
    await until(lambda: cluster.states()[1:] == ["accepted"] * 19)
    await asyncio.sleep(2.3)  # more than two lock durations: the lock must have been renewed
    assert cluster.states()[0] == "acquired"
    go.set()
    await until(lambda: cluster.states()[0] == "accepted")
    assert cluster.counts() == [1] * 20
    consumer.stop()
    await running
    assert sorted(told) == [(n, None) for n in range(20)]  # of renewals nobody is told
    await consumer.close()


async def test_a_handler_that_may_hang_is_told_once_and_not_that_it_should_poll(
    caplog, monkeypatch
):
    monkeypatch.setattr("sharemesh.client.consumer.lock_renewals.LONG_LOCKS", 1)
    cluster = MiniCluster(lock_ms=1_000)
    cluster.append(b"x", b"y", batched=False)
    go = asyncio.Event()

    async def handler(record):
        await go.wait()

    consumer = await consumer_of(cluster, prefetch_records=10)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=1))
    await until(lambda: "the handler has had t/0@0 for" in caplog.text)
    assert consumer.metrics()["records-handed-back-total"] == 1
    await asyncio.sleep(1.2)  # the lock is renewed several times
    assert caplog.text.count("the handler has had") == 1
    assert "renew_max_ms" in caplog.text
    assert "has not polled" not in caplog.text
    go.set()
    consumer.stop()
    await running
    await consumer.close()


async def test_renewal_has_a_cap():
    cluster = MiniCluster(lock_ms=150)
    cluster.append(b"x")
    go = asyncio.Event()

    async def handler(record):
        await go.wait()

    consumer = await consumer_of(cluster)
    options = RunOptions(renew_max_ms=100)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=1, options=options))
    await until(lambda: cluster.counts() and cluster.counts()[0] >= 1)
    await until(lambda: cluster.states() == ["available"] or cluster.counts()[0] > 1)
    go.set()
    consumer.stop()
    await running
    await consumer.close()


async def test_stop_finishes_what_runs_and_releases_what_waits():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 10)
    started = asyncio.Event()
    go = asyncio.Event()

    async def handler(record):
        started.set()
        await go.wait()

    consumer = await consumer_of(cluster, share_acquire_mode="batch_optimized")
    running = asyncio.ensure_future(consumer.run(handler, concurrency=1))
    await started.wait()
    consumer.stop()
    await until(lambda: cluster.states().count("available") == 9)
    assert cluster.counts() == [1] + [0] * 9  # nobody saw those that waited
    go.set()
    await running
    assert sorted(cluster.states()) == ["accepted"] + ["available"] * 9
    await consumer.close()


async def test_cl_46_a_stop_before_run_begins_ends_it_before_any_handler():
    cluster = MiniCluster()
    cluster.append(b"x")
    handled = []

    async def handler(record):
        handled.append(record.offset)
        consumer.stop()
        consumer.stop()  # of the same run

    consumer = await consumer_of(cluster)
    consumer.stop()
    await asyncio.wait_for(consumer.run(handler), 20)
    assert handled == []
    await asyncio.wait_for(consumer.run(handler), 20)
    assert handled == [0], "one stop ends one run"
    await consumer.close()


async def test_handlers_never_run_more_than_concurrency_at_once():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 50)
    now = most = 0

    async def handler(record):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=4))
    await until(lambda: cluster.states() == ["accepted"] * 50)
    consumer.stop()
    await running
    assert most == 4
    await consumer.close()
