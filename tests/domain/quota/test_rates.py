"""What is taken over a minute is the quota, whatever the demand; memory is bounded (QUO-5)."""

import random

import pytest

from sharemesh.domain.quota.rates import RateAccount, RateAccounts

RATE = 1_000_000.0
MINUTE_MS = 60_000


def taken_in_a_minute(rate, demands):
    """Take as soon as it is allowed, as (idle ms before it, size) say; return what was taken."""
    account, now_ms, taken = RateAccount(rate, 0), 0, 0
    for idle_ms, size in demands:
        now_ms += idle_ms
        if not account.is_open(now_ms):
            now_ms += account.debt_ms(now_ms)
        if now_ms >= MINUTE_MS:
            break
        assert account.is_open(now_ms)
        account.end(0, size, now_ms)
        taken += size
    return taken


def bursts(seed, largest):
    """Return more demands than a minute allows: lots at once, now and then a pause below 1 s."""
    rng = random.Random(seed)
    while True:
        left = rng.uniform(1.0, 3.0) * RATE
        while left > 0:
            size = rng.randrange(1, largest)
            left -= size
            yield 0, size
        yield rng.randrange(0, 900), rng.randrange(1, largest)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("largest", [5_000, 60_000, 2_000_000])
def test_quo_5_a_minute_of_bursts_takes_the_quota_within_5_percent(seed, largest):
    taken = taken_in_a_minute(RATE, bursts(seed, largest))
    assert 0.95 * 60 * RATE <= taken <= 1.05 * 60 * RATE


def test_quo_5_a_rate_of_few_records_is_kept_too():
    assert 114 <= taken_in_a_minute(2.0, ((0, 1) for _ in range(10_000))) <= 126


def test_quo_5_who_was_idle_has_one_second_and_no_more():
    account = RateAccount(RATE, 0)
    assert account.is_open(10 * MINUTE_MS)
    assert not account.end(0, int(RATE), 10 * MINUTE_MS)
    assert account.debt_ms(10 * MINUTE_MS) == 0
    assert account.end(0, int(RATE), 10 * MINUTE_MS)
    assert account.debt_ms(10 * MINUTE_MS) == 1_000
    assert account.debt_ms(10 * MINUTE_MS + 1_000) == 0, "paid by time"


def test_quo_5_the_debt_of_a_large_batch_is_paid_by_time_alone():
    account = RateAccount(1_000.0, 0)
    account.end(0, 31_000, 0)
    assert account.debt_ms(0) == 30_000
    assert not account.is_open(29_999)
    assert account.is_open(30_000)


def test_quo_5_what_is_reserved_is_not_taken_twice():
    account = RateAccount(1_000.0, 0)
    account.begin(800)
    assert account.is_open(0)  # 200 are left
    account.begin(800)
    assert not account.is_open(0)
    account.end(800, 10, 0)
    assert account.is_open(0)
    assert account.debt_ms(0) == 0


def test_quo_5_a_debt_is_paid_by_time_alone():
    account = RateAccount(1_000.0, 0)
    account.end(0, 11_000, 0)
    assert account.debt_ms(4_000) == 6_000
    assert account.debt_ms(10_000) == 0
    assert account.debt_ms(20_000) == 0


def test_quo_5_a_new_rate_holds_from_its_moment_and_pays_the_old_debt():
    account = RateAccount(1_000.0, 0)
    account.end(0, 11_000, 0)
    assert account.debt_ms(0) == 10_000
    account.change(10_000.0, 0)
    assert account.debt_ms(0) == 1_000
    account.change(10.0, 20_000)
    assert account.is_open(20_000)
    account.end(0, 20, 20_000)
    assert account.debt_ms(20_000) == 1_000  # the burst shrank with the rate


def test_quo_5_a_debt_is_paid_by_the_old_rate_before_the_change_and_by_the_new_one_after_it():
    accounts = RateAccounts()
    for name in ("User:raised", "User:lowered", "User:lifted"):
        accounts.of(name, 100.0, 0).end(0, 1_100, 0)  # a debt of 10 s
    accounts.change({"User:raised": 1_000.0, "User:lowered": 10.0}.get, 5_000)
    assert accounts.of("User:raised", 1_000.0, 5_200).debt_ms(5_200) == 300
    assert accounts.of("User:lowered", 10.0, 6_000).debt_ms(6_000) == 49_000
    assert accounts.of("User:lifted", 100.0, 6_000).debt_ms(6_000) == 4_000


def test_quo_5_accounts_are_bounded_and_forgetting_gives_nothing_back():
    accounts = RateAccounts(accounts_max=100)
    for number in range(100):
        accounts.of(f"User:{number}", 1.0, 0).end(0, 1_000, 0)
    late = accounts.of("User:late", 1.0, 10)
    late.end(0, 1_000, 10)
    assert len(accounts) == 100
    assert accounts.of("User:later", 1.0, 10) is late  # they share
    assert accounts.of("User:last", 2.0, 10).rate == 2.0  # each at the rate that binds it
    assert accounts.of("User:3", 1.0, 10).debt_ms(10) > 990_000
    hour_ms = 3_600_000
    assert accounts.of("User:later", 1.0, hour_ms) is not late
    assert len(accounts) <= 100


def test_quo_5_names_that_come_once_leave_nothing_behind():
    accounts = RateAccounts(accounts_max=1_000)
    for number in range(50_000):
        accounts.of(f"User:{number}", 1_000.0, number).end(0, 1, number)
    assert len(accounts) <= 3


@pytest.mark.parametrize("rate", [1e-306, 5e-324])
def test_quo_5_the_smallest_rate_has_a_longest_debt(rate):
    account = RateAccount(rate, 0)
    account.end(0, 1_000, 1)
    assert account.debt_ms(2) == 24 * 60 * MINUTE_MS


def test_quo_5_an_account_that_is_asked_for_goes_on_by_the_rate_of_that_moment():
    accounts = RateAccounts()
    account = accounts.of("User:jane", 10, 0)
    account.end(0, 20, 0)
    assert accounts.of("User:jane", 100, 0) is account
    assert account.debt_ms(0) == 100, "10 beyond the first second's worth, by 100 a second"


def test_quo_5_an_account_is_there_from_its_first_use_on():
    accounts = RateAccounts()
    assert "jane" not in accounts
    accounts.of("jane", RATE, 0)
    assert "jane" in accounts
