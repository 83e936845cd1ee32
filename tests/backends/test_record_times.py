"""Times that producers claim: bounded as Kafka bounds them, and retention without them (BND-14)."""

import random

import pytest

from sharemesh.backends.embedded.records import record_log
from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.record_set import build_batch
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.record_log import TopicLogConfig
from sharemesh.testing.memory_disk import MemoryDisk
from tests.clocks import ManualClock

PARTITION = TopicPartition(TopicId(bytes(16)), 0)
NOW_MS = ManualClock().wall_ms()
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def opened():
    disk = MemoryDisk(random.Random(1))

    async def take_over(epoch=0):
        logs = EmbeddedRecordLogs(disk, ManualClock(), LogSettings(segment_bytes=300))
        return await logs.open(PARTITION, epoch)

    return take_over


def batch(*times_ms):
    """Return one batch for each time."""
    records = [(None, b"v" * 30, ())]
    return b"".join(bytes(build_batch(records, timestamp_ms=time_ms)) for time_ms in times_ms)


@pytest.mark.parametrize(
    ("time_ms", "config"),
    [
        (NOW_MS + HOUR_MS + 1, {}),
        (2**63 - 1, {}),
        (-2, {}),
        (-(2**63), {}),
        (NOW_MS - 1_001, {"timestamp_before_max_ms": 1_000}),
        (NOW_MS + 1_001, {"timestamp_after_max_ms": 1_000}),
    ],
)
async def test_a_time_out_of_bounds_is_refused_and_nothing_is_written(opened, time_ms, config):
    log = await opened()
    log.configure(TopicLogConfig(**config))
    with pytest.raises(RefusedError, match=str(time_ms)) as refused:
        await log.append(batch(NOW_MS, time_ms))
    assert refused.value.error is ErrorCode.INVALID_TIMESTAMP
    assert log.high_watermark == 0
    await log.close()


@pytest.mark.parametrize("time_ms", [-1, 0, 1, NOW_MS, NOW_MS + HOUR_MS])
async def test_times_within_the_bounds_and_records_without_one_are_taken(opened, time_ms):
    log = await opened()
    await log.append(batch(time_ms))
    await log.close()


@pytest.mark.parametrize("time_ms", [2**63 - 1, -1, -(2**63)])
async def test_retention_counts_from_when_they_were_seen_where_times_say_nothing(
    opened, time_ms, monkeypatch
):
    with monkeypatch.context() as earlier:  # a version without the bound wrote it
        real = record_log.check_batches
        anything = (-(2**63), 2**63)
        earlier.setattr(
            record_log,
            "check_batches",
            lambda data, **words: real(data, **words | {"times_ms": anything}),
        )
        log = await opened()
        for _ in range(4):
            await log.append(batch(time_ms))
        await log.append(batch(NOW_MS))
    await log.close()
    log = await opened(1)
    log.configure(TopicLogConfig(retention_ms=DAY_MS))
    assert await log.apply_retention(NOW_MS) == 0
    assert await log.apply_retention(NOW_MS + DAY_MS) == 0
    assert await log.apply_retention(NOW_MS + DAY_MS + 1) == 5
    await log.close()


async def test_what_is_appended_to_a_segment_without_times_is_kept_as_long_as_any_other(opened):
    log = await opened()
    log.configure(TopicLogConfig(retention_ms=DAY_MS))
    await log.append(batch(-1))
    assert await log.apply_retention(NOW_MS) == 0
    await log.append(batch(-1))
    assert await log.apply_retention(NOW_MS + DAY_MS) == 0
    assert await log.apply_retention(NOW_MS + DAY_MS + 1) == 0
    assert await log.apply_retention(NOW_MS + 2 * DAY_MS + 1) == 2
    await log.close()
