"""Failed records are kept in order of their time, and only so many."""

from random import Random

import pytest

from sharemesh.client.consumer.handler_failures import KEPT_MAX, RetryQueue, RunOptions
from tests.clocks import ManualClock


def test_the_one_due_first_is_released_early_when_there_are_too_many():
    released: list[int] = []
    queue = RetryQueue(ManualClock(), released.append)
    for number in range(KEPT_MAX + 3):
        queue.keep(number, 10_000 - number)
    assert released == [KEPT_MAX, KEPT_MAX + 1, KEPT_MAX + 2]


def test_what_was_forgotten_is_not_released():
    released: list[int] = []
    queue = RetryQueue(ManualClock(), released.append)
    for number in range(4):
        queue.keep(number, number)
    queue.forget(2)
    queue.release_all()
    assert released == [0, 1, 3]


@pytest.mark.parametrize(
    ("count", "least", "most"), [(1, 80, 100), (3, 320, 400), (60, 800, 1_000)]
)
def test_the_wait_doubles_up_to_its_most_with_some_chance(count, least, most):
    options = RunOptions(retry_backoff_max_ms=1_000)
    chance = Random(1)
    waits = [options.retry_ms(count, chance) for _ in range(200)]
    assert least <= min(waits) < max(waits) <= most


@pytest.mark.parametrize("name", ["retry_backoff_ms", "retry_backoff_max_ms"])
def test_nothing_is_kept_if_the_wait_is_0(name):
    assert RunOptions(**{name: 0}).retry_ms(3, Random(1)) == 0
