"""The line of cached batches: found by offset, packed, cut into blocks (spec WIN)."""

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.cache.cached_batches import BLOCK_ENTRIES_MAX, CachedBatches
from sharemesh.domain.share_partition.cache.record_status import RecordStatus

ACKNOWLEDGED = RecordStatus(DeliveryState.ACKNOWLEDGED, 1)
ARCHIVED = RecordStatus(DeliveryState.ARCHIVED, 1)
AVAILABLE = RecordStatus(DeliveryState.AVAILABLE, 1)


def line(*batches):
    made = CachedBatches()
    for first, last, entry in batches:
        made.insert(first, last, entry)
    return made


def spans(batches):
    assert batches.is_well_formed()
    return [(each.first_offset, each.last_offset, each.status) for each in batches]


def test_an_offset_that_no_batch_holds_has_no_status():
    """WIN-8: below all, in a hole, behind all; and of the others that of their run."""
    whole = CachedBatch(14, 15, AVAILABLE)
    batches = line((14, 15, whole), (10, 11, ACKNOWLEDGED))
    assert len(batches) == 2
    found = [batches.status_at(offset) for offset in (9, 10, 12, 14, 16)]
    assert found == [None, ACKNOWLEDGED, None, AVAILABLE, None]
    assert list(batches.kept_whole()) == [whole]


def test_nothing_is_dropped_below_the_first_batch():
    batches = line((10, 11, ACKNOWLEDGED), (12, 13, ARCHIVED))
    assert batches.drop_below(10) == 0
    assert batches.drop_below(12) == 1
    assert spans(batches) == [(12, 13, ARCHIVED)]


def test_a_packed_batch_joins_what_is_like_it_on_both_sides():
    """WIN-8: three neighbours become one run."""
    middle = CachedBatch(12, 13, ACKNOWLEDGED)
    batches = line((10, 11, ACKNOWLEDGED), (12, 13, middle), (14, 15, ACKNOWLEDGED))
    assert batches.pack(middle) == -2
    assert spans(batches) == [(10, 15, ACKNOWLEDGED)]


def test_a_batch_of_more_runs_than_a_block_holds_is_cut():
    """WIN-9."""
    size = 2 * BLOCK_ENTRIES_MAX
    batch = CachedBatch(0, size - 1, ACKNOWLEDGED)
    batch.per_offset = True
    for offset in range(0, size, 2):
        batch.replace(offset, offset, ARCHIVED)
    batches = line((0, size - 1, batch), (size, size, AVAILABLE))
    assert batches.pack(batch) == 0
    assert len(batches) == size + 1
    assert batches.is_well_formed()
    assert batches.first_after(size - 1) == size
    assert batches.first_after(size) is None
    assert batches.done_through(0, None) == size - 1
    assert [each.first_offset for each in batches.starting_in(size - 2, size)] == [
        size - 2,
        size - 1,
        size,
    ]
