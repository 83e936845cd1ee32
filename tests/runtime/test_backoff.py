"""Waits between retries grow, are bounded, and spread."""

import random

import pytest

from sharemesh.backoff import Backoff, backoff_ms


def test_waits_double_up_to_the_bound() -> None:
    assert [backoff_ms(failures, 100, 1_000) for failures in range(6)] == [
        100,
        200,
        400,
        800,
        1_000,
        1_000,
    ]


def test_the_bound_holds_for_the_first_wait_and_after_any_number_of_failures() -> None:
    assert backoff_ms(0, 500, 200) == 200
    assert backoff_ms(10**9, 100, 30_000) == 30_000


def test_a_success_makes_the_next_wait_the_first_again() -> None:
    backoff = Backoff(100, 1_000)
    assert [backoff.next_ms(), backoff.next_ms()] == [100, 200]
    backoff.reset()
    assert backoff.next_ms() == 100


@pytest.mark.parametrize(
    ("jitter", "least", "most"), [((1.0, 0.8), 800, 1_000), ((0.5, 1.5), 500, 1_500)]
)
def test_waits_spread_over_all_of_the_jitter_and_nothing_else(
    jitter: tuple[float, float], least: int, most: int
) -> None:
    rng = random.Random(7)
    waits = [backoff_ms(0, 1_000, 1_000, rng, jitter) for _ in range(1_000)]
    assert least <= min(waits) < least + 20
    assert most - 20 < max(waits) <= most
