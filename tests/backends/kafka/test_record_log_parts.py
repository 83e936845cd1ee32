"""The parts of a record log on Kafka that know no cluster: batches, ends, what stays in memory."""

import random
import struct

import pytest

from sharemesh.backends.kafka.record_logs.cluster_words import produce_refusal
from sharemesh.backends.kafka.record_logs.epoch_starts import EPOCHS_MAX, EpochStarts
from sharemesh.backends.kafka.record_logs.fetched_batches import read_out, whole_batches
from sharemesh.backends.kafka.record_logs.log_ends import TopicLogEnds
from sharemesh.backends.kafka.record_logs.read_cache import ReadCache
from sharemesh.backends.recent_pool import RecentPool
from sharemesh.codec.batch_frame import place_frame
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import BrokerPartition, BrokerRefusedError
from tests.backends.kafka.record_log_world import batch


def placed(*bases: int, count: int = 3, epoch: int = 0) -> bytes:
    """Return batches that begin at these offsets."""
    made = bytearray()
    for base in bases:
        one = bytearray(batch(count))
        place_frame(one, base, epoch)
        made += one
    return bytes(made)


SIZE = len(batch(3))


def spans(frames) -> list[tuple[int, int]]:
    return [(frame.base_offset, frame.end_offset) for frame in frames]


# ---- bytes of a fetch ---------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 10, 16, 17, 40, 60, 61, 62, SIZE - 1])
def test_a_last_batch_that_is_cut_is_left_out(cut):
    """KRL-6."""
    part, problem = whole_batches(placed(0, 3) + placed(6)[:cut], 0)
    assert spans(part.frames) == [(0, 3), (3, 6)]
    assert (part.start_offset, part.end_offset, problem) == (0, 6, "")


def test_a_fetch_may_begin_below_its_offset_and_holes_belong_to_it():
    """KRL-6."""
    part, _ = whole_batches(placed(0, 3, 9), 4)
    assert spans(part.frames) == [(3, 6), (9, 12)]
    assert (part.start_offset, part.end_offset) == (3, 12)
    part, _ = whole_batches(placed(9), 4)
    assert (part.start_offset, part.end_offset) == (4, 12)
    part, _ = whole_batches(placed(9), None)
    assert (part.start_offset, part.end_offset) == (9, 12)


def old_message(magic: int) -> bytes:
    value = b"value"
    body = struct.pack(">bb", magic, 0) + (b"" if magic == 0 else struct.pack(">q", 1_000))
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", 6, len(body) + 4, 0) + body


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("before", [0, 2])
def test_old_message_formats_are_refused_in_words(magic, before):
    """KRL-6."""
    part, problem = whole_batches(placed(*range(0, 3 * before, 3)) + old_message(magic) * 5, 0)
    assert len(part.frames) == before
    assert f"message format {magic}" in problem
    assert "copy the topic" in problem


def test_a_broken_header_is_not_taken_for_a_cut():
    """KRL-6."""
    broken = bytearray(placed(0))
    struct.pack_into(">i", broken, 57, -5)
    assert whole_batches(bytes(broken), 0)[1] == "a record batch whose header is broken"
    broken[16] = 9
    assert "unknown format 9" in whole_batches(bytes(broken), 0)[1]


def test_a_read_takes_whole_batches_over_several_parts():
    """KRL-5."""
    one, _ = whole_batches(placed(0, 3), 0)
    two, _ = whole_batches(placed(6, 12), 6)
    parts = [one, two]
    assert [h.base_offset for h in read_out(parts, 1, 99, 1 << 20).headers] == [0, 3, 6, 12]
    assert [h.base_offset for h in read_out(parts, 3, 12, 1 << 20).headers] == [3, 6]
    assert [h.base_offset for h in read_out(parts, 3, 99, 2 * SIZE).headers] == [3, 6]
    assert [h.base_offset for h in read_out(parts, 10, 99, 1).headers] == [12]
    read = read_out(parts, 4, 99, 2 * SIZE)
    assert read.records == placed(3, 6)
    assert read_out(parts, 9, 12, 1 << 20).headers == ()


# ---- what stays in memory -----------------------------------------------------------------------


def test_memory_never_gives_another_answer_than_the_log():
    """KRL-5."""
    rng = random.Random(5)
    bases = [base for base in range(0, 600, 3) if rng.random() < 0.8]  # compaction left holes
    for bytes_max in (0, 4_000, 1 << 20):
        pool = RecentPool(bytes_max)
        cache = ReadCache(pool)
        found = 0
        for _ in range(2_000):
            at = rng.randrange(600)
            if rng.random() < 0.5:
                here = [base for base in bases if base + 3 > at][: rng.randrange(1, 9)]
                cache.add(whole_batches(placed(*here), at)[0])
                continue
            parts = cache.find(at, 600, 10 * SIZE)
            if not parts:
                continue
            found += 1
            got = [h.base_offset for h in read_out(parts, at, 600, 10 * SIZE).headers]
            assert got == [base for base in bases if base + 3 > at][: len(got)]
            assert got
        assert found > 10 or not bytes_max
        cache.clear()
        assert cache.find(0, 600, 1) == []
        assert pool._bytes == 0


# ---- ends ---------------------------------------------------------------------------------------


def test_ends_only_grow():
    """KRL-3."""
    ends = TopicLogEnds(0, 10, 8)
    assert ends.saw(2, 12, 9)
    assert not ends.saw(0, 5, 3)
    assert not ends.saw(-1, -1, -1)
    assert (ends.log_start_offset, ends.high_watermark, ends.last_stable_offset) == (2, 12, 9)
    assert ends.saw(20, 12, 12)  # retention passed everything
    assert (ends.log_start_offset, ends.high_watermark, ends.last_stable_offset) == (20, 20, 20)


def test_a_loss_ends_when_the_start_has_passed_all_that_was_confirmed():
    """KRL-9."""
    ends = TopicLogEnds(0, 10, 10)
    assert not ends.lost(10, 10, 10)
    assert ends.lost(6, 7, 7)
    assert (ends.high_watermark, ends.confirmed_end, ends.newest_end) == (6, 10, 7)
    ends.saw(0, 30, 30)
    assert ends.high_watermark == 6
    assert ends.lost(4, 5, 5)
    assert ends.damage is not None
    assert (ends.damage[0], ends.high_watermark, ends.confirmed_end) == (4, 4, 10)
    assert not ends.lost(20, 20, 20)  # above it nothing was delivered
    assert (ends.high_watermark, ends.confirmed_end, ends.newest_end) == (4, 10, 20)
    ends.saw(8, 30, 30)
    assert ends.damage[0] == ends.high_watermark == 8
    ends.saw(10, 30, 30)
    assert ends.damage is None
    assert (ends.high_watermark, ends.last_stable_offset) == (30, 30)


def test_places_that_cannot_be_served_are_forgotten_when_the_start_passes_them():
    """KRL-6."""
    ends = TopicLogEnds(0, 10, 10)
    assert ends.unreadable(5, "old")
    assert not ends.unreadable(5, "old")
    assert ends.unreadable(3, "older")
    assert ends.damage == (3, "older")
    assert ends.unreadable_at(5) == "old"
    ends.saw(4, 10, 10)
    assert ends.damage == (5, "old")
    ends.saw(6, 10, 10)
    assert ends.damage is None


def test_a_loss_takes_the_last_stable_offset_back_and_one_below_the_start_stops_nothing():
    """KRL-9."""
    ends = TopicLogEnds(0, 10, 10)
    assert ends.lost(8, 8, 5)
    ends.saw(10, 8, 5)
    assert (ends.high_watermark, ends.last_stable_offset, ends.damage) == (10, 10, None)
    assert not ends.lost(3, 3, 3)  # all of it was deleted
    assert (ends.high_watermark, ends.newest_end, ends.damage) == (10, 10, None)


def test_where_another_log_differs_is_the_lower_of_both_ends_of_an_epoch():
    """KRL-9: the other log may hold more of an epoch that ended earlier here."""
    starts = EpochStarts(((4, 0), (5, 90)))
    assert starts.differs_from(5, 80) == 80
    assert starts.differs_from(4, 95) == 90
    assert starts.differs_from(4, 70) == 70
    assert starts.differs_from(6, 200) == 200
    starts.forget_above(4)
    assert starts.differs_from(4, 95) == 95
    starts.add({epoch: epoch for epoch in range(10, 10 + 2 * EPOCHS_MAX)})
    assert [epoch for epoch, _ in starts.known] == list(range(10 + EPOCHS_MAX, 10 + 2 * EPOCHS_MAX))


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (7, "REQUEST_TIMED_OUT"),
        (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        (56, "KAFKA_STORAGE_ERROR"),
    ],
)
def test_what_a_leader_may_say_after_its_append_means_perhaps(code, name):
    """KRL-13."""
    place = BrokerPartition(TopicId(b"o" * 16), "orders", 0)
    answered = produce_refusal(place, BrokerRefusedError(code, name))
    assert answered.error is ErrorCode.REQUEST_TIMED_OUT
    assert "may be written" in str(answered)
    not_sent = produce_refusal(place, BrokerRefusedError(code, name, sent=False))
    assert not_sent.error is ErrorCode.KAFKA_STORAGE_ERROR


def test_too_few_replicas_before_the_append_is_refused():
    """KRL-13."""
    place = BrokerPartition(TopicId(b"o" * 16), "orders", 0)
    answered = produce_refusal(place, BrokerRefusedError(19, "NOT_ENOUGH_REPLICAS"))
    assert answered.error is ErrorCode.KAFKA_STORAGE_ERROR
