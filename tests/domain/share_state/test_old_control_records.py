"""What an import of the old design's control records adds up to (docs/spec)."""

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.old_control_records import (
    OldRecordsError,
    OldState,
    ShareCheckpoint,
    ShareDelta,
    import_state,
)

GROUP = GroupId("g")
KEY = SharePartitionKey(GROUP, TopicId(b"t" * 16), 0)
ACQUIRED, ACKNOWLEDGED, ARCHIVED = 1, 2, 4


def test_a_state_is_its_newest_checkpoint_and_the_deltas_behind_it():
    """OLD-1, OLD-2."""
    log = (
        ShareCheckpoint(130, GROUP, 2, 100, 110, (OldState(100, 104, ACQUIRED, 2),)),
        ShareDelta(131, GROUP, 2, 130, (OldState(102, 103, ACKNOWLEDGED, 2),)),
        ShareDelta(140, GROUP, 2, 131, (OldState(104, 104, ARCHIVED, 3),)),
    )
    state = import_state(KEY, log, timestamp_ms=5)
    assert (state.start_offset, state.snapshot_epoch) == (100, 2)
    assert [batch[:4] for batch in state.batches] == [
        (100, 101, DeliveryState.AVAILABLE, 1),  # acquired: the delivery did not end
        (102, 103, DeliveryState.ACKNOWLEDGED, 2),
        (104, 104, DeliveryState.ARCHIVED, 3),
    ]


@pytest.mark.parametrize("wrong", [OldState(100, 104, 9, 1), OldState(104, 100, ACQUIRED, 1)])
def test_a_state_that_makes_no_sense_is_refused(wrong):
    log = (ShareCheckpoint(130, GROUP, 2, 100, 110, (wrong,)),)
    with pytest.raises(OldRecordsError):
        import_state(KEY, log, timestamp_ms=5)
