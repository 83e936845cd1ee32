"""Partitions by key are Kafka's."""

import random

import pytest
from aiokafka.partitioner import murmur2

from sharemesh.client.producer.batches import StickyPartition
from sharemesh.codec.hashes import partition_of_key


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_partition_of_a_key_is_the_one_of_kafkas_murmur2(data, signed):
    for partitions in (1, 7, 10_000):
        assert partition_of_key(data, partitions) == (signed & 0x7FFFFFFF) % partitions


def test_keys_of_every_length_have_the_hash_that_another_library_finds():
    chance = random.Random(24)
    for length in [*range(80), 1_000, 4_097]:
        key = chance.randbytes(length)
        for _ in range(2):  # what is kept is the same
            assert partition_of_key(key, 10_007) == (murmur2(key) & 0x7FFFFFFF) % 10_007


def test_without_a_key_one_partition_sticks_until_the_next_batch():
    sticky = StickyPartition(random.Random(1))
    first = sticky.of("t", 4)
    assert [sticky.of("t", 4) for _ in range(5)] == [first] * 5
    sticky.next_batch("t", 4)
    assert sticky.of("t", 4) != first
    sticky.next_batch("t", 1)
    assert sticky.of("t", 1) == 0
