"""What readers and coordinators must find after the Spark job was killed, and after its rerun."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from urllib.parse import unquote

import pyarrow.parquet as pq

from sharemesh.codec.generation import FOLDER, MANIFEST
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import format_topic_id
from sharemesh.domain.share_state.records import (
    KIND_NAMES,
    Generation,
    StateSnapshot,
    StateUpdate,
    Tombstone,
)
from sharemesh.ports.shard_log import CorruptLogError
from sharemesh.share_coordinator.generations import GenerationReader
from sharemesh_spark.generation.generation_files import (
    hinted_generation,
    read_manifest,
    shard_content,
)
from sharemesh_spark.generation.shard_fold import generation_of_shard
from sharemesh_spark.history import history
from sharemesh_spark.reader.data_directory import UnreadableLogError

_COLUMNS = (
    "shard", "offset", "kind", "topic_id", "partition", "state_epoch", "leader_epoch",
    "start_offset", "at_ms", "cause", "member_id", "first_offset", "last_offset",
    "delivery_state", "delivery_count",
)  # fmt: skip


def pointers(cluster, shard):
    """Return the pointers that were ever committed in a shard, oldest first."""
    records = sorted(cluster.raw[shard].items(), key=lambda item: item[0])
    return [record for _, record in records if isinstance(record, Generation)]


async def check_generations(cluster, violations, about):
    """Every generation that has its name is whole and the log's fold; so is what is served."""
    cluster.remember()
    try:
        await _published(cluster, violations, about)
        for shard in cluster.raw:
            await _seen_by_readers(cluster, shard, violations, about)
    except (CorruptLogError, UnreadableLogError) as error:
        violations.unless(False, f"{about}: {error}")


async def _published(cluster, violations, about):
    reader = GenerationReader(cluster.disk)
    names = [p.name for p in (cluster.data / FOLDER).glob("*") if p.suffix != ".new"]
    hashes = {}
    for name in sorted(names):
        for each in read_manifest(cluster.data, name).shards:
            found = hashes[name, each.shard] = bytes.fromhex(each.content_hash)
            path = f"{FOLDER}/{name}/{MANIFEST}"
            asked = Generation(name, "", each.end_offset, path, found, 1)
            await reader.read(asked, each.shard)  # refuses another content than that hash
            violations.unless(
                found == cluster.fold_hash(each.shard, each.end_offset),
                f"{about}: generation {name} of shard {each.shard} is not the log's fold",
            )
    hinted = hinted_generation(cluster.data)
    for shard in cluster.raw:
        committed = pointers(cluster, shard)
        for pointer in committed:
            violations.unless(
                hashes.get((pointer.generation_id, shard)) == pointer.content_hash,
                f"{about}: committed generation {pointer.generation_id} is not there",
            )
        violations.unless(
            not hinted or hinted in {pointer.generation_id for pointer in committed},
            f"{about}: generation {hinted} says that it is committed, shard {shard} does not",
        )


async def _seen_by_readers(cluster, shard, violations, about):
    table = await asyncio.to_thread(generation_of_shard, cluster.data, shard)
    content = shard_content(table, shard)
    cluster.remember()  # the coordinator may have written since, at an interval of its own
    violations.unless(
        content.hash() == cluster.fold_hash(shard, content.about["end_offset"]),
        f"{about}: what Spark reads of shard {shard} is not the log's fold",
    )


async def check_coordinator(cluster, violations, about):
    """A new coordinator serves what the whole log folds to; the one before it served the same."""
    before = [cluster.served_hash(shard) for shard in cluster.raw]
    await cluster.start_coordinator()
    cluster.remember()
    for shard in cluster.raw:
        served = cluster.served_hash(shard)
        violations.unless(served == before[shard], f"{about}: shard {shard} changed by a restart")
        violations.unless(
            served == cluster.fold_hash(shard, cluster.end_offset(shard)),
            f"{about}: what is served of shard {shard} is not the log's fold",
        )


def check_history(cluster, violations, about):
    """Each change below the watermark is in the table once, and nothing else is."""
    cluster.remember()
    try:
        runs = history.runs(cluster.data)
        reached = history.watermark(cluster.data)
    except UnreadableLogError as error:
        violations.unless(False, f"{about}: {error}")
        return
    found = Counter(_rows(cluster.data))
    wanted = Counter(
        row
        for shard, records in cluster.raw.items()
        for offset, record in records.items()
        if offset < reached.get(shard, 0)
        for row in _changes(shard, offset, record)
    )
    for what, rows in (("missing", wanted - found), ("too many", found - wanted)):
        some = sorted(rows, key=str)[:2]
        violations.unless(not rows, f"{about}: {rows.total()} rows {what}, such as {some}")
    told = sum(run.rows for run in runs)
    violations.unless(told == found.total(), f"{about}: {told} rows told, {found.total()} found")
    ends = dict.fromkeys(cluster.raw, 0)
    for run in runs:
        violations.unless(not run.gaps, f"{about}: run {run.run} has gaps {run.gaps}")
        for shard, (low, high) in run.ranges.items():
            violations.unless(low == ends[shard], f"{about}: run {run.run} begins at {low}")
            ends[shard] = high


def _rows(data):
    """Yield the rows of the table as they lie in its files, whatever its manifests say."""
    for path in sorted((data / history.FOLDER / history.RUNS).rglob("*.parquet")):
        parts = dict(each.split("=", 1) for each in path.parts if "=" in each)
        place = (parts["day"], unquote(parts["group_id"]))
        for row in pq.ParquetFile(path).read(list(_COLUMNS)).to_pylist():
            yield tuple(row[name] for name in _COLUMNS) + place


def _changes(shard, offset, record):
    """Yield the rows that one record of the log is, by the words of the table's own page."""
    if not isinstance(record, StateSnapshot | StateUpdate | Tombstone):
        return
    keeps = not isinstance(record, Tombstone)
    changed = record.changed if isinstance(record, StateSnapshot) else ()
    if isinstance(record, StateUpdate):
        changed = record.batches
    day = datetime.fromtimestamp(record.write_timestamp_ms / 1_000, UTC).strftime("%Y-%m-%d")
    place = (day, record.key.group_id)
    row = (
        shard,
        offset,
        KIND_NAMES[type(record)],
        format_topic_id(record.key.topic_id),
        record.key.partition,
        record.state_epoch,
        None if isinstance(record, Tombstone) else record.leader_epoch,
        None if isinstance(record, Tombstone) else record.start_offset,
        record.write_timestamp_ms,
    )
    member = record.origin.member_id
    for batch in changed:
        cause = Cause(batch.cause or record.origin.cause).name.lower()
        state = DeliveryState(batch.delivery_state).name.lower()
        span = (batch.first_offset, batch.last_offset, state, batch.delivery_count)
        yield (*row, cause, member, *span, *place)
    plain = record.origin.cause in (Cause.INITIALIZE, Cause.DELETE)
    if not changed and (plain or not keeps):
        nothing = (None, None, None, None)
        yield (*row, Cause(record.origin.cause).name.lower(), member, *nothing, *place)
