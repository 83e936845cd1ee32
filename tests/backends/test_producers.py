"""What is remembered of producers is bounded, and copies go their own ways."""

import pytest

from sharemesh.backends.embedded.records import producers as module
from sharemesh.backends.embedded.records.producers import BATCHES_KEPT, ProducerEntry, Producers
from sharemesh.codec.batch_frame import Frame
from sharemesh.domain.errors import ErrorCode, RefusedError


def frame(producer_id: int, sequence: int, offset: int) -> Frame:
    return Frame(0, 70, offset, offset + 1, -1, 0, 0, 0, producer_id, 0, sequence, 1)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(module, "PRODUCERS_MAX", 3)


def test_the_producer_that_wrote_longest_ago_is_forgotten_first(few) -> None:
    producers = Producers()
    for producer_id in (1, 2, 3):
        producers.note(frame(producer_id, 0, producer_id))
    producers.note(frame(1, 1, 4))
    producers.note(frame(4, 0, 5))
    assert [producer_id for producer_id, _ in producers.all()] == [3, 1, 4]
    assert producers.epoch_of(2) == -1
    assert producers.highest_id == 4


def test_what_is_restored_is_bounded_too(few) -> None:
    producers = Producers()
    for producer_id in range(10):
        producers.restore(producer_id, ProducerEntry(0))
    assert [producer_id for producer_id, _ in producers.all()] == [7, 8, 9]


def test_the_last_five_batches_are_duplicates_and_older_ones_are_out_of_order() -> None:
    producers = Producers()
    for number in range(BATCHES_KEPT + 1):
        producers.note(frame(1, number, number))
    for number in range(1, BATCHES_KEPT + 1):
        (known,) = producers.check([frame(1, number, 99)])
        assert known.base_offset == number
    with pytest.raises(RefusedError) as refused:
        producers.check([frame(1, 0, 99)])
    assert refused.value.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_copy_does_not_see_what_the_other_notes() -> None:
    producers = Producers()
    producers.note(frame(1, 0, 0))
    copy = producers.copy()
    producers.note(frame(1, 1, 1))
    assert copy.check([frame(1, 1, 1)]) == [None]
