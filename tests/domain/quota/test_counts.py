"""What is open is counted as it begins and ends, and who has nothing is not remembered (QUO-5)."""

from sharemesh.domain.quota.counts import HeldRecords, OpenCounts
from sharemesh.domain.share_partition.cache.record_status import Lock, LockIndex
from tests.called_functions import calls_of


def test_quo_5_who_has_nothing_is_not_remembered():
    counts = OpenCounts()
    counts.add("User:jane", 2)
    counts.add("User:joe")
    assert (counts.of("User:jane"), counts.of("User:nobody"), len(counts)) == (2, 0, 2)
    counts.add("User:jane", -2)
    assert (counts.of("User:jane"), len(counts)) == (0, 1)


def test_quo_12_locks_count_what_is_held_and_tell_only_if_somebody_waits():
    told = []
    held = HeldRecords("User:jane", told.append)
    locks, lock = LockIndex(), Lock(0, 30_000, 0, 4, tally=held)
    locks.enter(lock, 5)
    locks.leave(lock, 2)
    assert (held.count, held.is_idle, told) == (3, False, [])
    held.is_awaited = True
    locks.leave(lock, 3)
    assert (held.count, held.is_idle, told) == (0, False, ["User:jane"])
    held.is_awaited = False
    assert held.is_idle


def test_quo_17_a_record_of_who_is_bound_passes_no_function_more():
    costs = []
    for tally in (None, HeldRecords("User:jane", str)):
        locks, lock = LockIndex(), Lock(0, 30_000, 0, 99, tally=tally)

        def each_record(locks=locks, lock=lock):
            for _ in range(100):
                locks.enter(lock, 1)
            for _ in range(100):
                locks.leave(lock, 1)

        costs.append(calls_of(each_record))
    assert costs[0] == costs[1]
