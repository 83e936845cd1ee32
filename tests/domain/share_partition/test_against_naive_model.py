"""Property: whatever happens, the machine does what a dict of single records would do.

A failing sequence is shrunk and printed as the calls that lead to it. `make test` runs the same
sequences each time; SHAREMESH_PROPERTY_SEQUENCES=n asks for n new ones.
"""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.domain.share_partition.partition_machine import LocksMachine, PartitionMachine

ASKED_FOR = os.environ.get("SHAREMESH_PROPERTY_SEQUENCES")
SEQUENCES = int(ASKED_FOR or "1000")
SPARE = (
    SEQUENCES + SEQUENCES // 10
)  # nearly half of what Hypothesis tries stays short and does not count
STEPS = 55  # each is one event at least


def check(sequences: int, *, same_each_time: bool, machine=PartitionMachine) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=sequences,
            stateful_step_count=STEPS,
            derandomize=same_each_time,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.slow
@pytest.mark.timeout(600 + SEQUENCES)
def test_random_histories_agree_with_the_naive_model(monkeypatch):
    """Rules RS-5 with T5 to T9, RS-8, ACK-1, ACK-12, ACK-22, ACQ-12, REL-2, REL-6.

    And of the cache: IFB-1, IFB-4, IFB-5.
    """
    monkeypatch.setattr(PartitionMachine, "long_histories", 0)
    check(SEQUENCES + SPARE, same_each_time=ASKED_FOR is None)
    assert PartitionMachine.LONG >= 50
    assert PartitionMachine.long_histories >= SEQUENCES


def test_the_first_histories_agree_with_the_naive_model():
    check(20, same_each_time=True)


def test_the_first_histories_with_counted_locks_agree_with_the_naive_model():
    """Rules WIN-2, WIN-3, WIN-4, WIN-8."""
    check(40, same_each_time=True, machine=LocksMachine)


@pytest.mark.slow
@pytest.mark.timeout(600 + SEQUENCES)
def test_random_histories_with_counted_locks_agree_with_the_naive_model():
    check(SEQUENCES, same_each_time=ASKED_FOR is None, machine=LocksMachine)
