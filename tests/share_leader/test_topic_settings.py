"""Topic settings reach the logs; retention moves log starts."""

import pytest

from sharemesh.cluster.store import records
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.cluster import TopicInfo
from sharemesh.ports.coordination import Put
from sharemesh.share_leader.partition.maintenance import log_config
from tests.share_leader.world import FOO, TopicPartition, acquired, until, world

P0 = TopicPartition(FOO, 0)


async def set_configs(w, **entries):
    configs = {name.replace("_", "."): str(value) for name, value in entries.items()}
    topic = TopicInfo("foo", FOO, 8, configs)
    await w.write(
        Put(w.view.keys.topic("foo"), records.encode_topic(topic)),
        until=lambda: w.view.topic(FOO) == topic,
    )
    await w.clock.advance(50)


def test_absent_settings_have_kafka_s_defaults():
    config = log_config({})
    assert (config.retention_ms, config.retention_bytes) == (604_800_000, -1)
    assert (config.batch_bytes_max, config.segment_bytes) == (1_048_588, -1)


async def test_a_changed_setting_holds_from_the_next_append():
    async with world() as w:
        await w.lead(P0)
        await set_configs(w, max_message_bytes=80)
        with pytest.raises(AssertionError, match=f"error_code: {ErrorCode.MESSAGE_TOO_LARGE:d}"):
            await w.produce(P0, 50)
        await set_configs(w)
        await w.produce(P0, 50)


async def test_retention_moves_the_log_start_and_groups_go_on_from_there():
    async with world(retention_check_interval_ms=1_000) as w:
        await set_configs(w, retention_ms=-1, retention_bytes=100_000, segment_bytes=1_048_576)
        await w.lead(P0)
        log = w.service.partitions.get(P0).log
        for _ in range(40):
            await w.produce(P0, 5_000)
        m1 = w.client()
        await m1.join(P0)
        assert log.log_start_offset == 0
        await w.clock.advance(1_000)
        await until(lambda: log.log_start_offset > 0)
        got = acquired(await m1.fetch(max_wait_ms=1_000), P0)
        assert got[0][0] == log.log_start_offset
