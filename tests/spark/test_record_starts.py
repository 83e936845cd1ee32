"""Records found side by side are those that the codec finds one after the other."""

import random

import numpy as np
import pytest

from sharemesh.codec.batch_frame import HEADER_BYTES, place_frame, walk_frames
from sharemesh.codec.record_set import build_plain_batch, decode_plain_records
from sharemesh_spark.reader import record_layout
from sharemesh_spark.reader.record_layout import BrokenRecordsError, record_places
from sharemesh_spark.reader.varints import Bytes

pytestmark = pytest.mark.spark


def batches_of(rng, counts, value_of):
    """Return the bytes of record batches, and the records in them."""
    data, records, offset = bytearray(), [], 0
    for count in counts:
        made = [
            (rng.randbytes(rng.choice([0, 1, 9, 80])), value_of(), 1_000 + number % 3)
            for number in range(count)
        ]
        batch = build_plain_batch(made)
        place_frame(batch, offset, 1)
        records += decode_plain_records(batch)
        data += batch
        offset += count
    return bytes(data), records


def frames_of(data):
    walk = walk_frames(
        data, start=0, limit=len(data), base_offset=0, leader_epoch=1, check_crc=False
    )
    assert walk.problem is None
    return walk.frames


def found_in(data):
    buffer = Bytes(data)
    return [
        (
            bytes(data[key_at : key_at + key_length]),
            bytes(data[value_at : value_at + value_length]) if value_length >= 0 else None,
            offset,
            timestamp_ms,
        )
        for places in record_places(buffer, frames_of(data), start_position=0, records_about=300)
        for offset, timestamp_ms, key_at, key_length, value_at, value_length in zip(
            places.offset.tolist(),
            places.timestamp_ms.tolist(),
            places.key_at.tolist(),
            places.key_length.tolist(),
            places.value_at.tolist(),
            places.value_length.tolist(),
            strict=True,
        )
    ]


def check(data, records):
    assert found_in(data) == [(key or b"", value, *rest) for key, value, *rest in records]


@pytest.mark.parametrize("sizes", [(0, 60), (60, 200), (100, 20_000), (150, 151)])
def test_records_of_all_sizes_are_found(sizes):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    counts = [rng.choice([1, 2, 63, 64, 129, 700]) for _ in range(5)]
    data, records = batches_of(
        rng, counts, lambda: rng.choice([None, rng.randbytes(rng.randrange(*sizes))])
    )
    check(data, records)


def test_values_that_look_like_records_mislead_nobody():
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    inner, _ = batches_of(rng, [300], lambda: rng.randbytes(100))
    decoys = inner[HEADER_BYTES:]

    def value_of():
        at = rng.randrange(len(decoys) - 1_500)
        return decoys[at : at + 1_500]

    check(*batches_of(rng, [200, 400], value_of))


def test_long_batches_are_cut(monkeypatch):
    steps = []
    walked = record_layout._walked

    def counted(walks, step):
        steps.append(int(walks.count.max()))
        return walked(walks, step)

    monkeypatch.setattr(record_layout, "_walked", counted)
    rng = random.Random(1)
    data, records = batches_of(rng, [2_000, 700], lambda: rng.randbytes(120))
    check(data, records)
    assert steps == [max(steps)]
    assert max(steps) < 3 * record_layout.RECORDS_PER_WALK


def test_a_batch_that_its_records_do_not_fill_is_named():
    rng = random.Random(2)
    data, _ = batches_of(rng, [100, 300], lambda: rng.randbytes(120))
    second = frames_of(data)[1]
    starts = record_layout.record_starts(
        Bytes(data),
        np.array([second.position]),
        np.array([second.size_bytes]),
        np.array([second.record_count]),
    )
    broken = bytearray(data)
    broken[starts[150]] ^= 2  # a length, one more or less
    with pytest.raises(BrokenRecordsError, match="offset 100: the records do not fill"):
        found_in(bytes(broken))
