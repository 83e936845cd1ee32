"""Arguments of the wrong type or unit are refused when they are given, by their name."""

from datetime import timedelta

import pytest

from sharemesh.client import AcknowledgeType, BreakerPolicy, RetryPolicy, RunOptions
from sharemesh.client.errors import IllegalArgumentError
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of


@pytest.mark.parametrize(
    ("made", "given", "said"),
    [
        (RetryPolicy, {"retry_on": ("OSError",)}, "retry_on has 'OSError': give exception classes"),
        (RetryPolicy, {"reject_on": 5}, "reject_on has 5"),
        (RetryPolicy, {"attempts": "3"}, "attempts must be from 1 to 1000, but is '3'"),
        (RetryPolicy, {"attempts": 2.5}, "attempts must be from 1 to 1000, but is 2.5"),
        (RetryPolicy, {"backoff_ms": 0.1}, "backoff_ms is 0.1: it is a whole number of millis"),
        (RetryPolicy, {"backoff_max_ms": -1}, "backoff_max_ms must not be negative"),
        (BreakerPolicy, {"counts": ("OSError",)}, "counts has 'OSError'"),
        (BreakerPolicy, {"ignores": ["x"]}, "ignores has 'x'"),
        (BreakerPolicy, {"failure_share": "x"}, "failure_share must be above 0"),
        (BreakerPolicy, {"window": 2.5}, "window must be from 1 to 10000, but is 2.5"),
        (BreakerPolicy, {"open_ms": 1.5}, "open_ms is 1.5"),
        (RunOptions, {"deadline_ms": 0}, "deadline_ms must be at least 1, but is 0"),
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
