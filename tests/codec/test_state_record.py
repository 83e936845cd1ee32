"""State records and their bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharemesh.codec.state_record import (
    UnreadableRecordError,
    decode_batches,
    decode_record,
    encode_key,
    encode_value,
    put_batches,
)
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.records import (
    UNKNOWN_START_OFFSET,
    ArchivedCounts,
    EpochFloor,
    Generation,
    Origin,
    StateSnapshot,
    StateUpdate,
    Tombstone,
)
from sharemesh.domain.state_batch import StateBatch
from sharemesh.v1.state_record_pb2 import ShareStateRecord

int32 = st.integers(0, 2**31 - 1)
int64 = st.integers(-1, 2**63 - 1)
keys = st.builds(
    SharePartitionKey,
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).map(GroupId),
    st.binary(min_size=16, max_size=16).map(TopicId),
    int32,
)
batches = st.lists(
    st.builds(
        StateBatch,
        int64,
        int64,
        st.sampled_from(DeliveryState),
        int32,
        st.sampled_from(Cause),
        st.integers(0, 2**62),
        st.integers(0, 2**62),
    ),
    max_size=4,
).map(tuple)
origins = st.builds(
    Origin,
    st.sampled_from(Cause),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(MemberId),
    st.just(b"t" * 16),
    st.just(b"s" * 8),
)
counted = st.dictionaries(st.sampled_from(Cause), st.integers(1, 2**40))
archived = st.none() | st.builds(
    lambda since_ms, counts: ArchivedCounts(since_ms, tuple(sorted(counts.items()))),
    int64,
    counted,
)
records = st.one_of(
    st.builds(
        StateSnapshot,
        keys,
        int32,
        int32,
        int32,
        int32,
        int64,
        int32,
        int64,
        int64,
        batches,
        origins,
        batches,
        st.one_of(st.just(UNKNOWN_START_OFFSET), int64),
        archived,
    ),
    st.builds(
        StateUpdate, keys, int32, int32, int32, int64, int32, int64, batches, origins, archived
    ),
    st.builds(Tombstone, keys, int32, int32, int64, origins),
    st.builds(EpochFloor, int32, int32, int64),
    st.builds(
        Generation,
        st.just("g2"),
        st.just("g1"),
        int64,
        st.just("generations/g2"),
        st.binary(max_size=32),
        int32,
        int64,
        int64,
    ),
)


@given(records)
def test_a_record_comes_back_as_it_was(record):
    """SC-21."""
    back = decode_record(encode_key(record), encode_value(record))
    assert back == record
    if isinstance(record, StateSnapshot | StateUpdate):
        assert [b.cause for b in back.batches] == [b.cause for b in record.batches]


KEY = SharePartitionKey(GroupId("g"), TopicId(b"\1" * 16), 3)


def test_an_absent_value_is_a_tombstone_that_says_nothing():
    tombstone = Tombstone(KEY, -1, -1, 0)
    assert decode_record(encode_key(tombstone), None) == tombstone


def test_unknown_kinds_and_later_versions_are_passed_over():
    """SC-22."""
    later = ShareStateRecord(kind=ShareStateRecord.KIND_UPDATE, format_version=2)
    assert decode_record(b"", later.SerializeToString()) is None
    assert decode_record(b"", ShareStateRecord().SerializeToString()) is None


def test_bytes_that_are_no_record_are_named():
    with pytest.raises(UnreadableRecordError, match="g:x:1"):
        decode_record(b"g:x:1", b"\xff\xff\xff")
    with pytest.raises(UnreadableRecordError, match="nokey"):
        decode_record(b"nokey", None)


def test_a_snapshot_of_an_older_version_has_no_changes_and_no_initial_offset():
    message = ShareStateRecord(kind=1, group_id="g", topic_id=b"t" * 16, start_offset=5)
    record = decode_record(b"", message.SerializeToString())
    assert record.changed == ()
    assert record.initial_start_offset == UNKNOWN_START_OFFSET


def test_rs_1_the_ids_of_delivery_states_are_stored():
    assert {each.name: each.value for each in DeliveryState} == {
        "AVAILABLE": 0,
        "ACQUIRED": 1,
        "ACKNOWLEDGED": 2,
        "ARCHIVING": 3,
        "ARCHIVED": 4,
    }


def test_exp_9_a_batch_says_when_it_was_acquired_and_one_of_before_does_not():
    """EXP-9: seven bytes of the log for a time of now."""
    told = StateBatch(0, 9, DeliveryState.ACKNOWLEDGED, 1, Cause.ACCEPT, 0, 1_795_332_000_123)
    before = told._replace(acquired_at_ms=0)
    sizes = []
    for batch in (told, before):
        field = ShareStateRecord().state_batches
        put_batches(field, [batch])
        sizes.append(field[0].ByteSize())
        [again] = decode_batches(field)
        assert tuple(again) == tuple(batch)
    assert sizes[0] - sizes[1] == 7
