"""Batches in memory: one bound for all logs, and never another answer than the disk's."""

import random

import pytest

from sharemesh.backends.embedded.records.recent_batches import (
    BATCH_OVERHEAD_BYTES,
    RecentBatches,
)
from sharemesh.backends.recent_pool import AGED_AT_ONCE, KEPT_MS, RecentPool
from sharemesh.codec.batch_frame import Frame
from tests.clocks import ManualClock


def frame(base: int, size: int = 100, count: int = 2) -> Frame:
    return Frame(0, size, base, base + count, 1, 0, 0, 0, -1, -1, -1, count)


def add(log: RecentBatches, base: int, size: int = 100) -> None:
    log.add([frame(base, size)], (b"h" * 61, b"p" * (size - 61)), is_abort=False)


def bases(log: RecentBatches, offset: int, end: int, max_bytes: int = 10_000):
    result = log.read(offset, end, max_bytes)
    return None if result is None else [header.base_offset for header in result.headers]


def test_what_is_kept_is_read_like_from_the_disk():
    log = RecentBatches(RecentPool(1 << 20))
    for base in (10, 12, 14):
        add(log, base)
    assert bases(log, 9, 16) is None
    assert bases(log, 10, 16) == [10, 12, 14]
    assert bases(log, 13, 16) == [12, 14]
    assert bases(log, 10, 14) == [10, 12]
    assert bases(log, 10, 16, max_bytes=1) == [10]
    assert bases(log, 10, 16, max_bytes=200) == [10, 12]
    assert log.read(12, 14, 1).records == b"h" * 61 + b"p" * 39


def test_all_logs_share_one_bound_and_the_oldest_batch_goes_first():
    pool = RecentPool(3 * (100 + BATCH_OVERHEAD_BYTES))
    one, two = RecentBatches(pool), RecentBatches(pool)
    add(one, 0)
    add(two, 0)
    add(one, 2)
    add(two, 2)
    assert bases(one, 0, 4) is None
    assert bases(one, 2, 4) == [2]
    assert bases(two, 0, 4) == [0, 2]


async def test_what_was_kept_for_half_a_minute_goes_with_the_next_batch_of_any_log():
    """BND-32."""
    clock = ManualClock()
    pool = RecentPool(1 << 20, clock)
    one, two = RecentBatches(pool), RecentBatches(pool)
    add(one, 0)
    await clock.advance(KEPT_MS - 1)
    add(one, 2)
    add(two, 0)
    assert bases(one, 0, 4) == [0, 2]
    await clock.advance(1)
    add(two, 2)
    assert bases(one, 0, 4) is None
    assert bases(one, 2, 4) == [2]
    await clock.advance(KEPT_MS)
    add(two, 4)
    assert bases(one, 2, 4) is None
    assert bases(two, 0, 6) is None
    assert bases(two, 4, 6) == [4]
    assert pool._bytes == 100 + BATCH_OVERHEAD_BYTES


async def test_after_a_silence_old_batches_go_a_few_at_a_time():
    """BND-32."""
    clock = ManualClock()
    pool = RecentPool(1 << 20, clock)
    log = RecentBatches(pool)
    for number in range(2 * AGED_AT_ONCE):
        add(log, 2 * number)
    await clock.advance(KEPT_MS)
    end = 4 * AGED_AT_ONCE
    add(log, end)
    assert bases(log, 2 * AGED_AT_ONCE - 2, end) is None
    assert bases(log, 2 * AGED_AT_ONCE, end) == list(range(2 * AGED_AT_ONCE, end, 2))
    add(log, end + 2)
    assert bases(log, end - 2, end + 4) is None
    assert bases(log, end, end + 4) == [end, end + 2]


def test_what_is_kept_without_a_clock_stays_until_there_is_too_much():
    pool = RecentPool(1 << 20)
    log = RecentBatches(pool)
    for number in range(100):
        add(log, 2 * number)
    assert bases(log, 0, 200) == list(range(0, 200, 2))


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_holds_and_there_is_never_a_gap(seed):
    rng = random.Random(seed)
    print(f"seed {seed}")
    bound = 20_000
    pool = RecentPool(bound)
    logs = [RecentBatches(pool) for _ in range(3)]
    ends = [0, 0, 0]
    for _ in range(2_000):
        at = rng.randrange(3)
        if rng.random() < 0.01:
            logs[at].clear()
        add(logs[at], ends[at], rng.randint(61, 3_000))
        ends[at] += 2
        assert 0 <= pool._bytes <= bound
        kept = sum(
            item.frame.size_bytes + BATCH_OVERHEAD_BYTES
            for log in logs
            for item in log._kept[log._first :]
        )
        assert kept == pool._bytes
        assert len(pool._order) == sum(len(log._kept) - log._first for log in logs)
    for log, end in zip(logs, ends, strict=True):
        if log._kept[log._first :]:
            first = log._bases[log._first]
            assert bases(log, first, end, max_bytes=1 << 30) == list(range(first, end, 2))
