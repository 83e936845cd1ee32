"""``run`` with a circuit breaker, a retry policy, a rate and deadlines (spec CL-41 to CL-45)."""

import asyncio
import threading

import pytest

from sharemesh.client import AcknowledgeType, BreakerPolicy, RetryPolicy, RunOptions
from sharemesh.client.consumer.share_consumer import ThreadHandlers
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, until

RECORDS = 12
BREAKER = BreakerPolicy(window=4, least=2, open_ms=20, open_max_ms=40, counts=(ConnectionError,))


async def test_an_outage_counts_a_record_once_at_most_cl_43(caplog):
    cluster = MiniCluster()
    cluster.append(*[b"x"] * RECORDS, batched=False)
    down, tries = [True], []

    async def handler(record):
        tries.append(record.offset)
        if down:
            raise ConnectionError("no route")

    options = RunOptions(breaker=BREAKER, retry_backoff_ms=1)
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=2, options=options))
    await until(lambda: len(tries) >= 20)
    assert max(cluster.counts()) <= 2
    down.clear()
    await until(lambda: cluster.states() == ["accepted"] * RECORDS)
    assert max(cluster.counts()) <= 2
    consumer.stop()
    await running
    await consumer.close()
    said = [each.message for each in caplog.records if "circuit breaker" in each.message]
    assert "is open" in said[0]
    assert "no route" in said[0]
    assert "is closed" in said[-1]


async def test_an_outage_costs_a_record_one_delivery_by_default_cl_42():
    """CL-42, HND-1: and what is given back waits until this member tries again."""
    cluster = MiniCluster()
    cluster.append(*[b"x"] * RECORDS, batched=False)
    down, tries, delays = [True], [], []
    cluster.on_acknowledgement = lambda batch: (
        delays.append(batch.release_delay_ms) if batch.uncounted else None
    )

    async def handler(record):
        tries.append(record.offset)
        if down:
            raise ConnectionError("no route")

    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=8))
    await until(lambda: len(tries) > 8)  # the breaker was open for a second, and tries again
    down.clear()
    await until(lambda: cluster.states() == ["accepted"] * RECORDS, timeout_s=20)
    assert max(cluster.counts()) <= 2
    assert any(0 < each <= 1_000 for each in delays)
    consumer.stop()
    await running
    await consumer.close()


async def test_while_the_breaker_is_open_other_members_have_the_records_cl_42():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * RECORDS, batched=False)

    tries = []

    async def handler(record):
        tries.append(record.offset)
        raise ConnectionError

    options = RunOptions(
        breaker=BreakerPolicy(window=2, least=2, open_ms=60_000, open_max_ms=60_000)
    )
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=2, options=options))
    await until(lambda: len(tries) == 2 and cluster.states() == ["available"] * RECORDS)
    assert cluster.counts() == [0] * RECORDS
    consumer.stop()
    await asyncio.wait_for(running, 5)
    await consumer.close()


async def test_failures_that_the_breaker_does_not_count_are_the_records_own():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 4, batched=False)

    async def handler(record):
        if record.delivery_count < 3:
            raise ValueError

    options = RunOptions(breaker=BREAKER, retry_backoff_ms=1)
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=2, options=options))
    await until(lambda: cluster.states() == ["accepted"] * 4)
    assert cluster.counts() == [3] * 4
    consumer.stop()
    await running
    await consumer.close()


async def test_a_poison_record_among_good_ones_is_given_up_in_spite_of_the_breaker():
    cluster = MiniCluster()
    cluster.append(b"bad", *[b"good"] * 40, batched=False)

    async def handler(record):
        if record.value == b"bad":
            raise ConnectionError

    retry = RetryPolicy(attempts=3, backoff_ms=1)
    consumer = await consumer_of(cluster)
    breaker = BreakerPolicy(open_ms=20, open_max_ms=40)
    options = RunOptions(breaker=breaker, retry=retry)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=4, options=options))
    await until(lambda: "accepted" in cluster.states()[1:])
    await until(lambda: set(cluster.states()[1:]) == {"accepted"})
    for _ in range(200):
        if cluster.states()[0] == "rejected":
            break
        cluster.append(b"good", batched=False)
        seen = len(cluster.states())
        await until(lambda seen=seen: cluster.states()[1:seen] == ["accepted"] * (seen - 1))
    assert cluster.states()[0] == "rejected"
    consumer.stop()
    await running
    await consumer.close()


@pytest.mark.parametrize("concurrency", [1, 2, 10])
@pytest.mark.parametrize("bad", [1, 5, 12])
async def test_bad_records_in_front_do_not_hold_up_the_good_ones_cl_42(concurrency, bad):
    """The leader brings them first, again and again: the breaker tries others, if there are any."""
    cluster = MiniCluster()
    cluster.append(*[b"bad"] * bad, *[b"good"] * 30, batched=False)

    async def handler(record):
        if record.value == b"bad":
            raise ConnectionError

    breaker = BreakerPolicy(least=1, window=4, open_ms=10, open_max_ms=20)
    consumer = await consumer_of(cluster)
    options = RunOptions(breaker=breaker, retry_backoff_ms=1)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=concurrency, options=options))
    await until(lambda: cluster.states()[bad:] == ["accepted"] * 30, timeout_s=20)
    consumer.stop()
    await running
    await consumer.close()


async def test_a_record_that_is_alone_is_tried_again_although_it_failed_cl_42():
    cluster = MiniCluster()
    cluster.append(b"x")
    tries = []

    async def handler(record):
        tries.append(record.offset)
        if len(tries) < 4:
            raise ConnectionError

    breaker = BreakerPolicy(least=1, window=1, open_ms=10, open_max_ms=20)
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, options=RunOptions(breaker=breaker)))
    await until(lambda: cluster.states() == ["accepted"], timeout_s=20)
    assert cluster.counts() == [1]
    consumer.stop()
    await running
    await consumer.close()


async def test_what_a_retry_policy_rejects_opens_no_breaker_cl_42():
    cluster = MiniCluster()
    cluster.append(*[b"bad"] * 8, *[b"good"] * 4, batched=False)

    async def handler(record):
        if record.value == b"bad":
            raise EOFError

    breaker = BreakerPolicy(least=1, window=1, open_ms=60_000, open_max_ms=60_000)
    consumer = await consumer_of(cluster)
    options = RunOptions(breaker=breaker, retry=RetryPolicy(retry_on=(OSError,)))
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: cluster.states() == ["rejected"] * 8 + ["accepted"] * 4)
    consumer.stop()
    await running
    await consumer.close()


async def test_the_last_attempt_rejects_cl_41():
    cluster = MiniCluster()
    cluster.append(b"again", b"never", batched=False)

    async def handler(record):
        raise (TypeError if record.value == b"never" else ConnectionError)

    retry = RetryPolicy(retry_on=(ConnectionError,), attempts=2, backoff_ms=1)
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, options=RunOptions(retry=retry)))
    await until(lambda: cluster.states() == ["rejected"] * 2)
    assert cluster.counts() == [2, 1]
    consumer.stop()
    await running
    await consumer.close()


async def test_handlers_begin_at_the_rate_cl_44():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 6, batched=False)
    loop = asyncio.get_running_loop()
    begun = []

    async def handler(record):
        begun.append(loop.time())

    consumer = await consumer_of(cluster)
    options = RunOptions(records_per_second=20)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=6, options=options))
    await until(lambda: cluster.states() == ["accepted"] * 6)
    assert begun[-1] - begun[0] >= 0.2
    consumer.stop()
    await running
    await consumer.close()


async def test_a_handler_that_is_late_is_cancelled_and_has_failed_cl_45():
    cluster = MiniCluster()
    cluster.append(b"x")
    ended = []

    async def handler(record):
        if record.delivery_count > 1:
            return
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(record.offset)

    failures = []
    options = RunOptions(
        deadline_ms=30, retry_backoff_ms=1, on_failure=lambda _, error: failures.append(error)
    )
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: cluster.states() == ["accepted"])
    assert ended == [0]
    assert [type(each) for each in failures] == [TimeoutError]
    consumer.stop()
    await running
    await consumer.close()


async def test_a_late_handler_on_a_thread_is_given_up_and_what_it_says_is_ignored():
    cluster = MiniCluster()
    cluster.append(b"x")
    go_on = threading.Event()

    def handler(record):
        if record.delivery_count == 1:
            go_on.wait(10)
            return AcknowledgeType.REJECT
        return None

    options = RunOptions(deadline_ms=30, retry_backoff_ms=1)
    consumer = await consumer_of(cluster)
    with ThreadHandlers(handler, 2) as threads:
        running = asyncio.ensure_future(consumer.run(threads.handle, options=options))
        await until(lambda: cluster.states() == ["accepted"])
        go_on.set()
        consumer.stop()
        await running
    assert cluster.states() == ["accepted"]
    await consumer.close()


@pytest.mark.parametrize("field", ["deadline_ms", "retry_backoff_ms"])
def test_a_negative_time_is_refused(field):
    with pytest.raises(Exception, match="negative"):
        RunOptions(**{field: -1})
