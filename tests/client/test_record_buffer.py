"""Deliveries are counted and cut by records; all parts read one payload."""

import random
from dataclasses import replace

import pytest

from sharemesh.client.consumer.deliveries import Delivery, Payload
from sharemesh.client.consumer.delivery_reader import DeliveryReader
from sharemesh.client.consumer.unseen_records import RecordBuffer
from sharemesh.client.records import AcquiredRange, TopicIdPartition
from sharemesh.codec import client_batches
from sharemesh.codec.client_batches import BatchWriter


def payload(*sizes: int) -> Payload:
    """Return one batch of each size, in order of offset from 0 on."""
    data, base = b"", 0
    for size in sizes:
        writer = BatchWriter("none", 1 << 20)
        for number in range(base, base + size):
            writer.append(1_000, None, b"%d" % number, ())
        data += base.to_bytes(8, "big") + writer.finish(None)[8:]
        base += size
    return Payload(data)


def delivery(of: Payload, *runs: tuple[int, int, int]) -> Delivery:
    acquired = tuple(AcquiredRange(*run) for run in runs)
    return Delivery(TopicIdPartition("t", 0, b"i" * 16), None, of, acquired, 1, 1_000, 1_000)


def values(piece: Delivery) -> list[tuple[int, bytes, int]]:
    records, failure, _ = DeliveryReader(piece, None, None, check_crcs=True).take(failures=True)
    assert failure is None
    return [(each.offset, each.value, each.delivery_count) for each in records]


def expected(*runs: tuple[int, int, int]) -> list[tuple[int, bytes, int]]:
    return [(n, b"%d" % n, count) for first, last, count in runs for n in range(first, last + 1)]


def test_at_most_what_is_wanted_is_taken_in_order():
    buffer = RecordBuffer()
    shared = payload(10)
    buffer.append(delivery(shared, (0, 2, 1), (4, 9, 2)))
    assert buffer.records == 9
    (first,) = buffer.take(4)
    assert values(first) == expected((0, 2, 1), (4, 4, 2))
    (rest,) = buffer.take(100)
    assert values(rest) == expected((5, 9, 2))
    assert (buffer.records, len(buffer), buffer.take(1)) == (0, 0, [])


def test_the_last_ones_are_taken_from_the_end():
    buffer = RecordBuffer()
    buffer.append(delivery(payload(5), (0, 4, 1)))
    buffer.append(delivery(payload(5), (0, 1, 1), (3, 4, 1)))
    taken = buffer.take_last(6)
    assert [values(each) for each in taken] == [expected((0, 1, 1), (3, 4, 1)), expected((3, 4, 1))]
    assert [values(each) for each in buffer.take(9)] == [expected((0, 2, 1))]


def test_what_comes_anew_is_dropped():
    """HBK-22."""
    buffer = RecordBuffer()
    other = replace(delivery(payload(9), (0, 8, 1)), source=TopicIdPartition("t", 1, b"i" * 16))
    for each in (other, delivery(payload(9), (0, 8, 1)), delivery(payload(12), (9, 11, 1))):
        buffer.append(each)
    assert buffer.drop(other.source, [range(9, 20)]) == 0
    came = delivery(payload(12), (1, 2, 2), (4, 4, 2), (7, 10, 2))
    assert buffer.drop(came.source, came.runs) == 7
    assert buffer.records == 9 + 5
    _, first, second = buffer.take(100)
    assert values(first) == expected((0, 0, 1), (3, 3, 1), (5, 6, 1))
    assert values(second) == expected((11, 11, 1))
    buffer.append(delivery(payload(9), (3, 5, 2)))
    for came_anew in ((3, 5, 1), (0, 3, 1)):
        buffer.put_back(delivery(payload(9), came_anew))
    assert [values(each) for each in buffer.take(9)] == [expected((0, 2, 1)), expected((3, 5, 2))]
    buffer.append(delivery(payload(3), (0, 2, 1)))
    assert buffer.drop(came.source, [range(9)]) == 3
    assert (len(buffer), buffer.records) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_however_it_is_cut_nothing_is_lost_and_nothing_comes_twice(seed):
    rng = random.Random(seed)
    buffer = RecordBuffer()
    sizes = [rng.randrange(1, 30) for _ in range(6)]
    runs, at = [], 0
    while at < sum(sizes):
        last = min(at + rng.randrange(0, 20), sum(sizes) - 1)
        if rng.random() < 0.8:
            runs.append((at, last, rng.randrange(1, 4)))
        at = last + 1
    buffer.append(delivery(payload(*sizes), *runs))
    head, tail = [], []
    while buffer.records:
        count = rng.randrange(1, 12)
        if rng.random() < 0.5:
            head += [one for piece in buffer.take(count) for one in values(piece)]
        else:
            taken = [values(piece) for piece in buffer.take_last(count)]
            tail = [one for piece in reversed(taken) for one in piece] + tail
    assert head + tail == expected(*runs), f"seed {seed}"


def test_a_large_batch_is_decoded_once(monkeypatch):
    reads = []
    read = client_batches.raw_records
    monkeypatch.setattr(client_batches, "raw_records", lambda data: reads.append(1) or read(data))
    buffer = RecordBuffer()
    buffer.append(delivery(payload(5_000), (0, 4_999, 1)))
    assert sum(len(values(piece)) for _ in range(10) for piece in buffer.take(500)) == 5_000
    assert len(reads) == 1


def test_records_of_batches_with_missing_offsets_are_found():
    """Compaction leaves holes; a part without a record is a part of gaps."""
    shared = payload(10)
    (batch,) = shared.batches(0, 9, check_crc=True)
    del batch.records[3:6]
    whole = delivery(shared, (0, 9, 1))
    head, rest = whole.split(4)
    middle, tail = rest.split(2)
    assert [values(each) for each in (head, middle, tail)] == [
        expected((0, 2, 1)),
        [],
        expected((6, 9, 1)),
    ]
    reader = DeliveryReader(middle, None, None, check_crcs=True)
    assert (reader.gaps, reader.is_read) == ([4, 5], True)


def test_what_is_left_behind_a_failure_is_a_delivery_of_its_own():
    def fail_at_3(value: bytes) -> bytes:
        if value == b"3":
            raise ValueError(value)
        return value

    whole = delivery(payload(6), (0, 2, 1), (3, 5, 2))
    reader = DeliveryReader(whole, None, fail_at_3, check_crcs=True)
    assert len(reader.take(failures=True)[0]) == 3
    rest = reader.rest()
    assert values(rest) == expected((3, 5, 2))
    again = DeliveryReader(rest, None, fail_at_3, check_crcs=True)
    assert again.take(failures=True)[2] == range(3, 4)
    assert values(again.rest()) == expected((4, 5, 2))
