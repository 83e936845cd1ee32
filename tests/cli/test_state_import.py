"""``sharemesh state-log import``: a log of the old design becomes share state (spec OLD)."""

import json
import struct
from pathlib import Path

import pytest

from sharemesh.codec.batch_frame import CONTROL, CRC_START, place_frame
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.old_control_record import read_old_records
from sharemesh.codec.record_set import build_batch
from sharemesh.domain.share_state.old_control_records import (
    OldRecordsError,
    OldState,
    ShareCheckpoint,
    ShareDelta,
)
from tests.cli.local_up import local_up

RECORDS = (
    ShareCheckpoint(20, "billing", 1, 0, 4, (OldState(0, 3, 2, 9),)),
    ShareCheckpoint(21, "billing", 2, 4, 10, (OldState(6, 6, 2, 1),)),
    ShareCheckpoint(22, "audit", 1, 18, 18, ()),
    ShareDelta(23, "billing", 2, 21, (OldState(8, 9, 3, 2), OldState(5, 5, 0, 1))),
)
"""``billing`` goes on at 4 with 6, 8 and 9 done; ``audit`` at 18."""


def value_of(record):
    group_id = record.group_id.encode()
    head = struct.pack(">hh", 0, len(group_id)) + group_id
    if isinstance(record, ShareCheckpoint):
        fields = struct.pack(
            ">iqq", record.checkpoint_epoch, record.start_offset, record.end_offset
        )
    else:
        fields = struct.pack(">iq", record.checkpoint_epoch, record.back_offset)
    states = [
        struct.pack(">qqbh", s.base_offset, s.last_offset, s.state, s.delivery_count)
        for s in record.states
    ]
    return head + fields + struct.pack(">i", len(states)) + b"".join(states)


def control_batch(record):
    kind = 5 if isinstance(record, ShareCheckpoint) else 6
    batch = build_batch([(struct.pack(">hh", 0, kind), value_of(record), ())], timestamp_ms=1)
    struct.pack_into(">h", batch, CRC_START, CONTROL)
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    place_frame(batch, record.offset, 3)
    return bytes(batch)


def data_batch(first, count):
    batch = build_batch([(None, b"%d" % n, ()) for n in range(count)], timestamp_ms=1)
    place_frame(batch, first, 3)
    return bytes(batch)


def old_log(directory: Path) -> list[str]:
    """Write two segments: data, then control records behind a hole that compaction left."""
    parts = (
        data_batch(0, 10) + data_batch(10, 8),
        b"".join(map(control_batch, RECORDS)) + bytes(100),
    )
    paths = [directory / name for name in ("00000000000000000000.log", "00000000000000000020.log")]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(part)
    return list(map(str, paths))


def test_control_records_are_found_between_the_data(tmp_path):
    found = [
        r for name in old_log(tmp_path) for r in read_old_records(Path(name).read_bytes(), name)
    ]
    assert found == list(RECORDS)


def test_damage_is_found_or_harmless():
    first, second = data_batch(0, 5), control_batch(RECORDS[0])
    found, refused = [], 0
    for at in range(len(first), len(first) + len(second)):
        data = bytearray(first + second)
        data[at] ^= 0x10
        try:
            found += read_old_records(bytes(data), "old.log")
        except OldRecordsError:
            refused += 1
    assert {each.states for each in found} == {RECORDS[0].states}
    assert refused >= len(second) - 12  # offset and leader epoch lie outside of the checksum


def test_a_value_of_another_shape_is_refused():
    short = ShareCheckpoint(7, "g", 1, 0, 0, ())
    batch = bytearray(control_batch(short))
    value = value_of(short)
    at = bytes(batch).index(value)
    batch[at + len(value) - 1] = 3  # says three states
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    with pytest.raises(OldRecordsError, match="offset 7 says 3 states"):
        list(read_old_records(bytes(batch), "old.log"))


@pytest.mark.integration
def test_groups_go_on_where_the_old_log_left_them(tmp_path):
    files = old_log(tmp_path)
    with local_up(tmp_path / "data") as up:
        assert up.sharemesh("topics", "create", "orders").returncode == 0
        text = "".join(f'{{"id": {n}}}\n' for n in range(20))
        assert up.sharemesh("produce", "orders", stdin=text).returncode == 0
        command = ("state-log", "import", *files, "--topic", "orders", "--partition", "0", "--json")
        shown = up.sharemesh(*command)
        assert shown.returncode == 0, shown.stderr
        assert "not found" in up.sharemesh("groups", "describe", "billing").stderr
        done = up.sharemesh(*command, "--execute")
        assert done.returncode == 0, done.stderr
        planned = json.loads(shown.stdout)
        assert json.loads(done.stdout) == [{**row, "imported": True} for row in planned]
        assert [
            (row["group"], row["start_offset"], row["delivery_complete"], row["batches"])
            for row in json.loads(done.stdout)
        ] == [("audit", 18, 0, 0), ("billing", 4, 3, 3)]
        again = up.sharemesh(*command, "--execute")
        assert (again.returncode, json.loads(again.stdout)) == (0, planned)  # left as they are
        delivered = {}
        for group, count in (("billing", 13), ("audit", 2)):
            consume = ("consume", "orders", "--group", group, "--json", "--idle", "8000")
            lines = up.sharemesh(*consume, "--max-records", str(count)).stdout.splitlines()
            delivered[group] = {r["offset"]: r["delivery_count"] for r in map(json.loads, lines)}
        assert delivered["audit"] == {18: 1, 19: 1}
        left = sorted({*range(4, 20)} - {6, 8, 9})
        assert delivered["billing"] == {offset: 2 if offset == 5 else 1 for offset in left}
        assert up.sharemesh(*command, "--execute").returncode == 0  # what was consumed stays so
        rows = json.loads(up.sharemesh("groups", "offsets", "audit", "--json").stdout)
        assert [row["lag"] for row in rows] == [0]
        dump = up.sharemesh("state-log", "dump", str(up.directory), "--group", "billing").stdout
        assert "cause=import" in dump
