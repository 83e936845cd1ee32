"""Arguments of the wrong type or unit are refused when they are given, by their name."""

import asyncio
from datetime import timedelta

import pytest

from sharemesh.client import AcknowledgeType, BreakerPolicy, RetryPolicy, RunOptions
from sharemesh.client.consumer.release_terms import delay_in_ms
from sharemesh.client.errors import IllegalArgumentError
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of


@pytest.mark.parametrize(
    ("made", "given", "said"),
    [
        (RetryPolicy, {"retry_on": ("OSError",)}, "retry_on has 'OSError': give exception classes"),
        (RetryPolicy, {"reject_on": 5}, "reject_on has 5"),
        (RetryPolicy, {"attempts": "3"}, "attempts must be a whole number from 1 to 1000"),
        (RetryPolicy, {"attempts": 2.5}, "attempts must be a whole number from 1 to 1000"),
        (RetryPolicy, {"attempts": True}, "attempts must be a whole number from 1 to 1000"),
        (RetryPolicy, {"backoff_ms": 0.1}, "backoff_ms is 0.1: it is a whole number of millis"),
        (RetryPolicy, {"backoff_max_ms": -1}, "backoff_max_ms must not be negative"),
        (BreakerPolicy, {"counts": ("OSError",)}, "counts has 'OSError'"),
        (BreakerPolicy, {"ignores": ["x"]}, "ignores has 'x'"),
        (BreakerPolicy, {"failure_share": "x"}, "failure_share must be above 0"),
        (BreakerPolicy, {"window": 2.5}, "window must be a whole number"),
        (BreakerPolicy, {"counts": ()}, "counts is empty"),
        (BreakerPolicy, {"open_ms": 10_000}, "open_max_ms is 5000: give at least open_ms, 10000"),
        (BreakerPolicy, {"open_ms": 1.5}, "open_ms is 1.5"),
        (RunOptions, {"deadline_ms": 0}, "deadline_ms must be at least 1, but is 0"),
        (RunOptions, {"deadline_ms": True}, "deadline_ms is True: it is a whole number"),
        (RunOptions, {"deadline_ms": 2**60}, "deadline_ms must be at most 9007199254740992"),
        (RunOptions, {"deadline_ms": 10**5_000}, "deadline_ms must be at most .* is too large"),
        (RunOptions, {"records_per_second": True}, "records_per_second must be from .* is True"),
        (RunOptions, {"on_failure": "x"}, "on_failure is 'x': give a function, or None"),
        (RunOptions, {"on_failure": asyncio.sleep}, "on_failure is a coroutine function"),
        (RunOptions, {"deadline_ms": timedelta(seconds=1)}, "deadline_ms is datetime.timedelta"),
        (RunOptions, {"records_per_second": "5"}, "records_per_second must be from .* is '5'"),
        (RunOptions, {"retry": {"attempts": 3}}, "retry is {'attempts': 3}: give a RetryPolicy"),
        (RunOptions, {"breaker": True}, "breaker is True: give a BreakerPolicy, or None"),
        (RunOptions, {"on_error": "REJECT"}, "on_error is 'REJECT': give AcknowledgeType"),
        (RunOptions, {"on_error": AcknowledgeType.RENEW}, "on_error is .*RENEW"),
    ],
)
def test_an_option_of_run_of_the_wrong_type_is_refused_by_name(made, given, said):
    with pytest.raises(IllegalArgumentError, match=said):
        made(**given)


@pytest.mark.parametrize("concurrency", [True, 1.5, "4", None, 0, 10_001])
async def test_a_concurrency_that_is_no_whole_number_in_bounds_is_refused(concurrency):
    consumer = await consumer_of(MiniCluster())
    with pytest.raises(IllegalArgumentError, match="concurrency must be a whole number from 1"):
        await consumer.run(print, concurrency=concurrency)
    await consumer.close()


async def test_options_of_another_type_are_refused():
    consumer = await consumer_of(MiniCluster())
    with pytest.raises(IllegalArgumentError, match=r"options is .*RetryPolicy"):
        await consumer.run(print, options=RetryPolicy())
    await consumer.close()


def test_one_exception_class_is_as_good_as_a_tuple_of_it():
    assert RetryPolicy(retry_on=OSError, reject_on=[KeyError]) == RetryPolicy(
        retry_on=(OSError,), reject_on=(KeyError,)
    )
    assert BreakerPolicy(counts=OSError) == BreakerPolicy(counts=(OSError,))


@pytest.mark.parametrize("kind", [7, "RELEASE", None, AcknowledgeType.GAP])
async def test_what_is_no_type_for_records_is_refused_and_breaks_nothing(kind):
    cluster = MiniCluster()
    cluster.append(b"x")
    consumer = await consumer_of(cluster, share_acknowledgement_mode="explicit")
    [record] = await consumer.poll(5_000)
    with pytest.raises(IllegalArgumentError, match="ACCEPT, RELEASE, REJECT or RENEW"):
        consumer.acknowledge(record, kind)
    with pytest.raises(IllegalArgumentError, match="a delay is seconds or a timedelta"):
        consumer.acknowledge(record, AcknowledgeType.RELEASE, delay="5s")
    consumer.acknowledge(record)
    assert [*(await consumer.commit_sync()).values()] == [None]
    assert cluster.states() == ["accepted"]
    await consumer.close()


@pytest.mark.parametrize(
    ("delay", "shown"), [(86_400.001, "86400.001"), (-1, "-1"), (10**400, "10000"), ("1", "'1'")]
)
def test_a_delay_out_of_its_bounds_is_shown_as_it_was_given(delay, shown):
    with pytest.raises(IllegalArgumentError, match=f"a delay .*{shown}"):
        delay_in_ms(delay)
