"""What counts in a stamped log, and what its writer does next (STL-1 to STL-12, STL-21)."""

import pytest

from sharemesh.domain.stamped_log.judgement import ForwardReading, Judgement, OwnFence, judge
from sharemesh.domain.stamped_log.stamp import (
    BrokenLogError,
    Stamp,
    StampedBatch,
    StampKind,
    WriterIdentity,
)
from sharemesh.domain.stamped_log.take_over import (
    NO_UNIT,
    FencedBelow,
    NewestUnit,
    check_start,
    newest_in,
)
from sharemesh.domain.stamped_log.writing import (
    FencedAbove,
    ReadUpTo,
    StampAnew,
    UnitCounts,
    WriterPosition,
    after_answer,
    after_reading,
)

LOG, OTHER_LOG = 11, 12
ME = WriterIdentity(LOG, 7, 1_000)
EARLIER = WriterIdentity(LOG, 6, 900)
LATER = WriterIdentity(LOG, 8, 1_100)


def unit(base, *, at=None, count=1, by=ME, number=0, log=LOG, start=0) -> StampedBatch:
    """A unit that expects ``at`` (its base, if not said) and lies at ``base``."""
    expected = base if at is None else at
    stamp = Stamp(StampKind.UNIT, log, expected, count, by.epoch, by.writer, number, start)
    return StampedBatch(base, base + count, count, False, stamp)


def fence(base, by=ME) -> StampedBatch:
    return StampedBatch(base, base + 1, 1, False, by.fence())


def plain(base, count=1, *, records=None, foreign=False) -> StampedBatch:
    held = count if records is None else records
    return StampedBatch(base, base + count, held, foreign, None)


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        (unit(5, count=3), Judgement.COUNTS),
        (unit(5, at=4), Judgement.VOID),
        (unit(5, at=6), Judgement.VOID),
        (unit(5, log=OTHER_LOG), Judgement.VOID),
        (fence(5), Judgement.FENCE),
        (fence(5)._replace(stamp=ME._replace(log=OTHER_LOG).fence()), Judgement.VOID),
        (plain(5, 4), Judgement.VOID),
        (plain(5, 1, foreign=True), Judgement.VOID),
        (plain(5, 3, records=0, foreign=True), Judgement.VOID),
    ],
)
def test_stl_2_stl_3_its_place_alone_makes_a_unit_count(batch, found):
    assert judge(batch, LOG) is found


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (plain(5, 3, records=2), "has 2 records for 3 offsets"),
        (plain(5, 3, records=0), "has 0 records for 3 offsets"),
        (unit(5, count=3)._replace(record_count=2), "has 2 records for 3 offsets"),
        (unit(5, count=3)._replace(end_offset=7, record_count=2), "its writer gave it 3"),
        (unit(5, at=1, count=3)._replace(end_offset=7, record_count=2), "its writer gave it 3"),
    ],
)
def test_stl_4_what_is_not_whole_is_never_void(batch, words):
    with pytest.raises(BrokenLogError, match=words) as broken:
        judge(batch, LOG)
    assert broken.value.offset == 5


def walk(begin, *batches, fence=None):
    reading = ForwardReading(LOG, begin, fence)
    return [reading.take(each) for each in batches], reading.position


def test_stl_12_a_load_leaves_out_what_is_void():
    own = OwnFence(ME, 6, 2)
    batches = (
        fence(0, EARLIER), unit(1, by=EARLIER), unit(2, at=1, by=EARLIER),
        unit(3, count=2, by=EARLIER, number=1), plain(5), fence(6),
    )  # fmt: skip
    void, fenced, counts = Judgement.VOID, Judgement.FENCE, Judgement.COUNTS
    assert walk(0, *batches, fence=own) == ([fenced, counts, void, counts, void, fenced], 7)


def test_stl_12_a_reading_may_begin_inside_a_batch():
    assert walk(4, unit(3, count=3, number=9), unit(6, number=10))[1] == 7


@pytest.mark.parametrize(
    ("begin", "batches", "words", "offset"),
    [
        (2, [unit(3, number=4)], "begins at offset 3 where 2 was expected", 2),
        (2, [unit(2, number=4), unit(4, number=5)], "begins at offset 4 where 3 was", 3),
        (2, [unit(2, number=4), unit(1, number=5)], "begins at offset 1 where 3 was", 3),
        (5, [unit(2, count=3, number=4)], "begins at offset 2 where 5 was", 5),
        (2, [unit(2, number=4), unit(3, number=6)], "5 units count below offset 3 where", 3),
        (0, [unit(0, number=1)], "0 units count below offset 0 where there were 1", 0),
    ],
)
def test_stl_4_holes_and_missing_units_are_corruption(begin, batches, words, offset):
    with pytest.raises(BrokenLogError, match=words) as broken:
        walk(begin, *batches)
    assert broken.value.offset == offset


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (unit(3, by=EARLIER, number=8), "fence that was written at offset 3 is not there"),
        (fence(3, EARLIER), "is not there: the cluster changes records"),
        (plain(3, 2), "is not there"),
        (fence(3), "8 units count below offset 3 where there were 9"),
    ],
)
def test_stl_12_the_own_fence_and_all_units_below_it_are_found(batch, words):
    with pytest.raises(BrokenLogError, match=words):
        walk(2, unit(2, number=7), batch, fence=OwnFence(ME, 3, 9))


def test_stl_10_the_newest_unit_says_number_and_start():
    window = [unit(3, by=EARLIER), fence(4), plain(5), unit(7, count=2, by=EARLIER, number=5,
              start=2), fence(9, EARLIER), unit(10, at=3, by=EARLIER), fence(11)]  # fmt: skip
    assert newest_in(window, ME) == NewestUnit(6, 2, 7)
    assert newest_in([plain(0), fence(1, EARLIER), fence(2)], ME) is None


@pytest.mark.parametrize("other", [LATER, WriterIdentity(LOG, 7, 1_001)])
def test_stl_10_a_writer_of_an_epoch_as_high_fences_the_taker(other):
    assert newest_in([unit(3, by=EARLIER), fence(4, other)], ME) == FencedBelow(other.epoch, 4)
    assert newest_in([unit(3, by=other), fence(4, EARLIER)], ME) == FencedBelow(other.epoch, 3)
    assert newest_in([fence(2, other), unit(3, by=EARLIER)], ME) == NewestUnit(1, 0, 3)


def test_stl_10_a_log_that_begins_above_its_declared_start_lost_records():
    check_start(NewestUnit(4, 10, 20), 10)
    check_start(NO_UNIT, 0)
    with pytest.raises(BrokenLogError, match="begins at offset 11, its writers left it from 10"):
        check_start(NewestUnit(4, 10, 20), 11)
    with pytest.raises(BrokenLogError, match="removed by retention or by others"):
        check_start(NO_UNIT, 1)


def stamp(at=10, count=2, by=ME) -> Stamp:
    return Stamp(StampKind.UNIT, LOG, at, count, by.epoch, by.writer, 3, 0)


def test_stl_7_only_the_expected_offset_confirms():
    assert after_answer(stamp(), 10) == UnitCounts(12)
    assert after_answer(stamp(), 15) == ReadUpTo(17)
    with pytest.raises(BrokenLogError, match="written at offset 9 where 10 was expected") as broken:
        after_answer(stamp(), 9)
    assert broken.value.offset == 9


def test_stl_8_what_lies_between_decides():
    mine = unit(10, count=2, number=3)
    copy = unit(15, at=10, count=2, number=3)
    assert after_reading(stamp(), [mine, fence(12, LATER), copy], 17) == UnitCounts(12)
    assert after_reading(stamp(), [plain(10, 5), copy], 17) == StampAnew(17)
    assert after_reading(stamp(), [fence(10, EARLIER), fence(11), plain(12), copy], 17) == (
        StampAnew(17)
    )
    assert after_reading(stamp(), [plain(10), fence(11, LATER), copy], 17) == FencedAbove(8, 11)
    with pytest.raises(BrokenLogError, match=r"a unit of another writer \(epoch 6\) counts at"):
        after_reading(stamp(), [unit(10, by=EARLIER), copy], 17)


def test_stl_6_the_position_goes_on_with_what_was_confirmed():
    position = WriterPosition.taken_over(ME, 20, NewestUnit(5, 3, 11))
    assert (position.end, position.number, position.declared_start) == (21, 5, 3)
    sent = position.stamp(4, 9)
    assert sent == Stamp(StampKind.UNIT, LOG, 21, 4, 7, 1_000, 5, 9)
    position.confirmed(sent, 25)
    assert (position.end, position.number, position.declared_start) == (25, 6, 9)
    assert position.newest == 21


def test_stl_21_the_newest_unit_or_else_the_own_fence_stays():
    assert WriterPosition(ME, 20, 30, 4, 9, 25).prune_limit() == 9
    assert WriterPosition(ME, 20, 30, 4, 28, 25).prune_limit() == 25
    assert WriterPosition(ME, 20, 30, 0, 28, -1).prune_limit() == 20
