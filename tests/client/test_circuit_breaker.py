"""The circuit breaker, the retry policy and the rate of ``run``, without a clock."""

from random import Random

import pytest

from sharemesh.client import AcknowledgeType, BreakerPolicy, RetryPolicy, RunOptions
from sharemesh.client.consumer.circuit_breaker import BreakerState, CircuitBreaker
from sharemesh.client.consumer.start_rate import StartRate
from sharemesh.client.errors import IllegalArgumentError

POLICY = BreakerPolicy(window=4, least=2, open_ms=100, open_max_ms=300, probes=3)


def breaker_after(results: str, now_ms=0):
    """A breaker that saw successes (.) and failures (x)."""
    breaker = CircuitBreaker(POLICY)
    for number, each in enumerate(results):
        breaker.ended(number, failed=each == "x", now_ms=now_ms)
    return breaker


@pytest.mark.parametrize(
    ("results", "is_open"),
    [
        ("x", False),
        ("xx", True),
        (".x", True),
        ("..x", False),
        ("..xx", True),
        ("...x...x", False),
        ("....xx", True),
        ("......", False),
    ],
)
def test_it_opens_at_the_share_of_failures_over_the_window_cl_42(results, is_open):
    assert (breaker_after(results).state is BreakerState.OPEN) is is_open


def test_an_open_breaker_lets_nothing_begin_until_its_time_is_over_and_then_some():
    breaker = breaker_after("xx")
    assert breaker.room(10, 99) == 0
    assert breaker.wait_ms(40) == 60
    assert breaker.room(10, 100) == 3
    assert breaker.wait_ms(100) is None
    breaker.ended(0, failed=False, now_ms=100)
    assert breaker.room(10, 100) == 2
    assert breaker.room(1, 100) == 1


def test_probes_that_fail_open_it_for_twice_as_long_up_to_the_bound():
    breaker = breaker_after("xx")
    now_ms = 0
    for open_ms in (100, 200, 300, 300):
        assert breaker.wait_ms(now_ms) == open_ms
        now_ms += open_ms
        assert breaker.room(10, now_ms) == 3
        breaker.ended(0, failed=True, now_ms=now_ms)
        assert breaker.state is BreakerState.PROBING
        breaker.ended(1, failed=True, now_ms=now_ms)
    assert breaker.room(10, now_ms) == 0


def test_one_bad_record_among_the_probes_does_not_hold_it_open():
    breaker = breaker_after("xx")
    breaker.room(10, 100)
    for number, failed in enumerate((True, False, False)):
        breaker.ended(number, failed=failed, now_ms=100)
    assert breaker.is_closed
    assert breaker.room(10, 100) == 10


def test_what_ends_while_it_is_open_changes_nothing():
    breaker = breaker_after("xx")
    for failed in (True, False, False, False):
        breaker.ended(0, failed=failed, now_ms=10)
    assert breaker.wait_ms(10) == 90


def test_after_a_time_of_failures_it_forgets_them_when_it_closes():
    breaker = breaker_after("xx")
    breaker.room(10, 100)
    breaker.ended(0, failed=False, now_ms=100)
    breaker.ended(1, failed=False, now_ms=100)
    breaker.ended(2, failed=True, now_ms=100)
    assert breaker.is_closed


def test_one_record_that_fails_twice_while_it_tries_is_one_probe_cl_42():
    breaker = breaker_after("xx")
    breaker.room(10, 100)
    for _ in range(3):
        breaker.ended(7, failed=True, now_ms=100)
    assert breaker.state is BreakerState.PROBING
    assert breaker.room(10, 100) == 2


def test_what_failed_before_is_suspect_while_it_tries_and_until_it_closes_cl_42():
    breaker = breaker_after("xx")
    assert not breaker.is_suspect(1)  # nothing is tried yet
    breaker.room(10, 100)
    breaker.ended(7, failed=True, now_ms=100)
    assert [breaker.is_suspect(each) for each in (0, 1, 7, 8)] == [True, True, True, False]
    breaker.ended(8, failed=False, now_ms=100)
    breaker.ended(9, failed=False, now_ms=100)
    assert breaker.is_closed
    assert not breaker.is_suspect(1)


def test_what_is_given_back_waits_until_others_were_tried_cl_42():
    breaker = breaker_after("xx")
    assert breaker.delay_ms(40) == 60
    breaker.room(10, 100)
    assert breaker.delay_ms(100) == 200  # as long as it would be open next
    assert breaker.delay_ms(100, again=True) == 300  # the longest such time
    assert breaker_after("..").delay_ms(0) == 0


@pytest.mark.parametrize(
    ("errors", "is_outage"),
    [
        ((ConnectionError(), OSError()), True),
        ((ConnectionError(), ValueError()), False),
        ((ExceptionGroup("inner", [ConnectionError()]),), True),
    ],
)
def test_of_a_group_each_exception_must_be_one_that_counts(errors, is_outage):
    """``asyncio.TaskGroup`` raises groups (CL-41, CL-42)."""
    group = ExceptionGroup("unhandled errors in a TaskGroup", list(errors))
    assert RunOptions().breaker.is_outage(group) is is_outage
    assert RetryPolicy(retry_on=(OSError,)).retries(group) is is_outage


def test_one_record_that_fails_again_and_again_is_no_outage_cl_42():
    breaker = CircuitBreaker(POLICY)
    for _ in range(10):
        breaker.ended("orders/0@7", failed=True, now_ms=0)
    assert breaker.is_closed
    for number in range(3):
        breaker.ended(number, failed=False, now_ms=0)
        breaker.ended("orders/0@7", failed=True, now_ms=0)
    assert breaker.state is BreakerState.OPEN or breaker.is_closed
    breaker.ended(8, failed=True, now_ms=0)
    assert breaker.state is BreakerState.OPEN


@pytest.mark.parametrize("error", [OSError(), TimeoutError(), RuntimeError(), EOFError()])
def test_what_is_not_the_records_own_is_an_outage_by_default_cl_42(error):
    assert RunOptions().breaker.is_outage(error)


@pytest.mark.parametrize("error", [None, ValueError(), KeyError("id"), TypeError(), IndexError()])
def test_an_error_of_data_or_code_is_the_records_own_cl_42(error):
    assert not RunOptions().breaker.is_outage(error)
    assert BreakerPolicy(ignores=()).is_outage(error) is (error is not None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"failure_share": 0},
        {"failure_share": 1.1},
        {"window": 0},
        {"window": 10, "least": 11},
        {"probes": 0},
        {"open_ms": -1},
        {"open_ms": 10_000, "open_max_ms": 5_000},
        {"counts": ()},
        {"counts": (OSError, KeyError)},
    ],
)
def test_numbers_out_of_their_bounds_are_refused(wrong):
    with pytest.raises(IllegalArgumentError):
        BreakerPolicy(**wrong)


RELEASE, REJECT = AcknowledgeType.RELEASE, AcknowledgeType.REJECT


@pytest.mark.parametrize(
    ("error", "count", "kind"),
    [
        (ConnectionError(), 1, RELEASE),
        (ConnectionError(), 3, REJECT),
        (ConnectionRefusedError(), 1, REJECT),
        (ValueError(), 1, REJECT),
    ],
)
def test_a_retry_policy_tries_again_or_rejects_cl_41(error, count, kind):
    policy = RetryPolicy(
        retry_on=(ConnectionError,), reject_on=(ConnectionRefusedError,), attempts=3
    )
    assert policy.decide(error, count, Random(1))[0] is kind


def test_the_wait_doubles_with_the_deliveries():
    policy = RetryPolicy(backoff_ms=100, backoff_max_ms=300)
    waits = [policy.decide(ValueError(), count, Random(1))[1] for count in (1, 2, 3, 4)]
    assert all(80 * n <= wait <= 100 * n for n, wait in zip((1, 2, 3, 3), waits, strict=True))


def test_attempts_and_options_that_exclude_each_other_are_refused():
    with pytest.raises(IllegalArgumentError, match="attempts"):
        RetryPolicy(attempts=0)
    with pytest.raises(IllegalArgumentError, match="not both"):
        RunOptions(retry=RetryPolicy(), on_error=REJECT)
    with pytest.raises(IllegalArgumentError, match="records_per_second"):
        RunOptions(records_per_second=0)


def test_no_more_begin_than_the_rate_allows_cl_44():
    rate = StartRate(10, now_ms=0)
    begun = [now_ms for now_ms in range(2_001) if rate.take(now_ms)]
    assert len(begun) == 21
    assert rate.wait_ms() == 100


def test_after_a_pause_a_second_of_work_may_begin_at_once():
    rate = StartRate(10, now_ms=0)
    assert [rate.take(60_000) for _ in range(12)] == [True] * 10 + [False] * 2
