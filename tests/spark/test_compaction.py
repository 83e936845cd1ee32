"""The Spark job over a share state log on a real disk: same fold, and corruption is named."""

import random
from pathlib import Path

import pytest

from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.generation import decode_parts
from sharemesh.codec.state_record import encode_key, encode_value
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.records import Origin, StateSnapshot, StateUpdate, Tombstone
from sharemesh.domain.state_batch import StateBatch
from sharemesh.ports.shard_log import LogRecord
from sharemesh_spark import __main__ as application
from sharemesh_spark.generation.compact import NotProvenError, compact, prove
from sharemesh_spark.history.known import read_known
from sharemesh_spark.history.queries import by_cause, by_delivery_count
from sharemesh_spark.reader.data_directory import UnreadableLogError
from sharemesh_spark.session import start
from tests.mesh.outcome import check_folds_are_equal
from tests.spark.reference_fold import fold_of_log

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]  # Spark starts a JVM and workers
SHARDS = 3
KEYS = [
    SharePartitionKey(GroupId(f"group:{n % 3}"), TopicId(bytes([n]) * 16), n % 4) for n in range(12)
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    session = start("tests", work=tmp_path_factory.mktemp("spark"), cores=2)
    yield session
    session.stop()


def snapshot(key: SharePartitionKey, epoch: int) -> StateSnapshot:
    origin = Origin(Cause.INITIALIZE)
    return StateSnapshot(key, epoch, epoch, 0, 3, 0, 0, 1_000, 1_000, (), origin, (), 0)


def random_record(rng: random.Random, key: SharePartitionKey, seen: set[SharePartitionKey]):
    if key not in seen or rng.random() < 0.02:
        seen.add(key)
        return snapshot(key, rng.randrange(1, 9))
    if rng.random() < 0.02:
        seen.discard(key)
        return Tombstone(key, rng.randrange(9), rng.randrange(9), 2_000, Origin(Cause.DELETE))
    first = rng.randrange(500)
    state, cause = rng.choice(
        [
            (DeliveryState.ACKNOWLEDGED, Cause.ACCEPT),
            (DeliveryState.AVAILABLE, Cause.RELEASE),
            (DeliveryState.ARCHIVED, Cause.REJECT),
        ]
    )
    batch = StateBatch(first, first + rng.randrange(20), state, rng.randrange(1, 5), cause)
    origin = Origin(cause, MemberId("member"))
    start_offset = rng.choice([-1, rng.randrange(200)])
    return StateUpdate(key, 0, 1, rng.randrange(-1, 4), start_offset, 5, 2_000, (batch,), origin)


async def write_log(data: Path, seed: int, *, takeovers: int = 3, records: int = 400) -> None:
    rng = random.Random(seed)
    disk, clock = SystemDisk(data), SystemClock()
    await open_data_directory(disk, cluster_id="test", group_shards=1, state_shards=SHARDS)
    seen: set[SharePartitionKey] = set()
    for epoch in range(1, takeovers + 1):
        logs = [
            await EmbeddedShardLogs(disk, clock, LogSettings(segment_bytes=8_192)).open(
                "state", shard, epoch
            )
            for shard in range(SHARDS)
        ]
        for _ in range(records // takeovers):
            number = rng.randrange(len(KEYS))
            log, record = logs[number % SHARDS], random_record(rng, KEYS[number], seen)
            last = log.append([LogRecord(encode_key(record), encode_value(record))])
            if rng.random() < 0.1:
                await log.committed(last + 1)
        for log in logs:
            await log.committed(log.end_offset)
            await log.close()
    disk.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_generation_folds_to_what_the_log_folds_to(spark, tmp_path, seed):
    await write_log(tmp_path, seed)
    compared = check_folds_are_equal(tmp_path)
    manifest = compact(spark, tmp_path, generation_id="g1")
    assert manifest.share_partitions == compared > 0
    assert manifest.records == 399, f"seed {seed}"
    assert manifest.share_partitions == sum(
        len(fold_of_log(tmp_path, shard.shard, shard.end_offset).states)
        for shard in manifest.shards
    )
    assert (tmp_path / "generations/g1/manifest.json").exists()
    assert not (tmp_path / "generations/g1.new").exists()


async def test_a_generation_that_differs_is_not_proven(spark, tmp_path):
    await write_log(tmp_path, 4)
    compact(spark, tmp_path, generation_id="g1")
    await append_one(tmp_path)
    assert prove(tmp_path, tmp_path / "generations/g1")  # a longer log changes nothing below
    (tmp_path / "generations/g1").rename(tmp_path / "other")
    victim = next((tmp_path / "other").glob("*.parquet"))
    rewrite_with_other_start_offset(victim)
    with pytest.raises(NotProvenError, match="is not that of the log's fold"):
        prove(tmp_path, tmp_path / "other")


async def append_one(data: Path) -> None:
    disk = SystemDisk(data)
    log = await EmbeddedShardLogs(disk, SystemClock(), LogSettings()).open("state", 0, 9)
    record = snapshot(KEYS[0], 9)
    await log.committed(log.append([LogRecord(encode_key(record), encode_value(record))]) + 1)
    await log.close()
    disk.close()


def rewrite_with_other_start_offset(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    rows = table.to_pylist()
    next(row for row in rows if row["kind"] == "state")["start_offset"] += 1
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


async def test_the_report_counts_records_by_cause(spark, tmp_path):
    disk = SystemDisk(tmp_path)
    await open_data_directory(disk, cluster_id="test", group_shards=1, state_shards=1)
    log = await EmbeddedShardLogs(disk, SystemClock(), LogSettings()).open("state", 0, 1)
    key = KEYS[0]
    accepted = StateBatch(0, 9, DeliveryState.ACKNOWLEDGED, 1, Cause.ACCEPT)
    rejected = StateBatch(10, 10, DeliveryState.ARCHIVED, 2, Cause.REJECT)
    records = [
        snapshot(key, 1),
        StateUpdate(key, 0, 1, 1, 0, 10, 5_000, (accepted,), Origin(Cause.ACCEPT, MemberId("m"))),
        StateUpdate(key, 0, 1, 1, 0, 11, 6_000, (rejected,), Origin(Cause.REJECT, MemberId("m"))),
    ]
    encoded = [LogRecord(encode_key(record), encode_value(record)) for record in records]
    await log.committed(log.append(encoded) + 1)
    await log.close()
    disk.close()
    known = read_known(spark, tmp_path, appended=False)
    lines = [(line.cause, line.became, line.records) for line in by_cause(known).collect()]
    assert lines == [("accept", "acknowledged", 10), ("reject", "archived", 1)]
    assert by_delivery_count(known) == [("group:0", 1, 10), ("group:0", 2, 1)]


async def test_a_flipped_bit_is_reported_with_file_and_position(tmp_path):
    await write_log(tmp_path, 5, takeovers=1)
    segment = max((tmp_path / "state/00000").glob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    with pytest.raises(UnreadableLogError, match=rf"{segment.name}.*position \d+"):
        fold_of_log(tmp_path, 0, 10**9)


def test_a_folder_that_is_no_data_directory_ends_in_one_sentence(tmp_path, capsys):
    assert application.main(["report", str(tmp_path)]) == 1
    assert "is not a data directory of sharemesh" in capsys.readouterr().out.replace("\n", " ")


async def test_reading_starts_over_and_states_come_back_from_parquet(spark, tmp_path):
    await write_log(tmp_path, 6)
    compact(spark, tmp_path, generation_id="g1")
    parts = [path.read_bytes() for path in (tmp_path / "generations/g1").glob("*.parquet")]
    states, _ = decode_parts(parts, 1)
    assert states == fold_of_log(tmp_path, 1, 10**9).states


async def test_a_file_that_ends_between_two_batches_is_reported(tmp_path):
    await write_log(tmp_path, 7, takeovers=1)
    segment = max((tmp_path / "state/00000").glob("*.log"), key=lambda path: path.name)
    data = segment.read_bytes()
    walk = walk_frames(
        data[64:], start=64, limit=len(data), base_offset=None, leader_epoch=None, check_crc=True
    )
    last = [frame for frame in walk.frames if not frame.is_marker][-1]
    segment.write_bytes(data[: last.position])
    with pytest.raises(UnreadableLogError, match=rf"{segment.name}.*is committed"):
        fold_of_log(tmp_path, 0, 10**9)


async def test_a_batch_of_another_epoch_is_reported(tmp_path):
    await write_log(tmp_path, 8, takeovers=1)
    segment = max((tmp_path / "state/00000").glob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(segment.read_bytes())
    data[64 + 12 : 64 + 16] = (77).to_bytes(4)  # the epoch lies before what the CRC covers
    segment.write_bytes(data)
    with pytest.raises(UnreadableLogError, match="leader epoch 77"):
        fold_of_log(tmp_path, 0, 10**9)
