"""Large states: their snapshots come in parts, whole or not at all (WIN-12 to WIN-15)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharemesh.codec.state_record import decode_record, decode_updates, encode_key, encode_value
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.packed_batches import combined
from sharemesh.domain.share_state import checks
from sharemesh.domain.share_state.checks import WriteRequest
from sharemesh.domain.share_state.fold import Floors, ShareState
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import SnapshotPart, StateSnapshot, StateUpdate
from sharemesh.domain.share_state.snapshot_parts import SnapshotParts
from sharemesh.domain.state_batch import StateBatch
from sharemesh.ports.shard_log import LogRecord
from sharemesh.share_coordinator.shard_kind import encode, load
from tests.domain.share_partition.test_cost import calls
from tests.domain.share_state.test_machine_properties import KEYS, folded, operations, record_of

KEY = KEYS[0]
LARGE, PART = 4, 3


def machine_of(updates_per_snapshot=3):
    return ShareStateMachine(
        updates_per_snapshot, decode_updates, large_batches=LARGE, part_batches=PART
    )


def write_of(*offsets, start_offset=-1, count=1):
    batches = tuple(
        StateBatch(offset, offset, DeliveryState.ACKNOWLEDGED, count) for offset in offsets
    )
    return WriteRequest(0, 0, start_offset, 0, batches)


class Shard:
    """A machine, and the log that it wrote."""

    def __init__(self, updates_per_snapshot=3):
        self.machine = machine_of(updates_per_snapshot)
        self.log = []
        self.take(self.machine.initialize(KEY, 0, 0, in_metadata=True, now_ms=1).record)

    def take(self, *records):
        for record in records:
            self.machine.apply(record, len(self.log))
            self.log.append(record)

    def write(self, *offsets, **words):
        decided = self.machine.write(KEY, write_of(*offsets, **words), in_metadata=True, now_ms=2)
        assert decided.answer.error is ErrorCode.NONE
        self.take(decided.record)
        return decided.record

    def snapshot(self, now_ms=50):
        self.take(*self.machine.cold_snapshot(KEY, now_ms=now_ms))


def loaded(log):
    made = machine_of()
    stored = [encode(record)._replace(offset=offset) for offset, record in log]
    for at in range(0, len(stored), 5):
        load(made, stored[at : at + 5], backlog_max_bytes=1 << 20)
    return made


def large():
    shard = Shard()
    shard.write(*range(0, 20, 2))
    return shard


def test_win_12_a_snapshot_of_a_large_state_comes_in_parts_and_says_nothing_new():
    """WIN-12."""
    shard = large()
    before = shard.machine.state(KEY)
    shard.snapshot()
    parts = [record for record in shard.log if isinstance(record, SnapshotPart)]
    assert [(part.part, part.parts, len(part.batches)) for part in parts] == [
        (0, 4, 3), (1, 4, 3), (2, 4, 3), (3, 4, 1),
    ]  # fmt: skip
    assert shard.machine.state(KEY) == before
    assert folded(shard.log)[0] == {KEY: before}, "the fold needs none of them"
    assert shard.machine.prune_limit == shard.log.index(parts[0])
    behind = list(enumerate(shard.log))[shard.machine.prune_limit :]
    assert loaded(behind).state(KEY) == before, "the parts alone are the state"


@pytest.mark.parametrize("kept", range(4))
def test_win_12_what_a_crash_left_of_a_snapshot_counts_for_nothing(kept):
    """WIN-12."""
    shard = large()
    torn = len(shard.log) + kept
    shard.snapshot()
    log = list(enumerate(shard.log))[:torn]
    found = loaded(log)
    assert found.state(KEY) == shard.machine.state(KEY)
    assert found.prune_limit is None
    # The next coordinator makes its own, and a late part of the old one changes nothing.
    again = found.cold_snapshot(KEY, now_ms=60)
    for number, record in enumerate((*again[:2], shard.log[-1], *again)):
        found.apply(record, torn + number)
    assert found.state(KEY) == shard.machine.state(KEY)
    assert found.prune_limit == torn + 3


def test_win_12_parts_that_do_not_belong_together_end_what_was_begun():
    """WIN-12."""
    shard = large()
    first, second, *_ = shard.machine.cold_snapshot(KEY, now_ms=50)
    other = shard.machine.cold_snapshot(KEY, now_ms=51)
    parts = SnapshotParts()
    assert parts.take(second, 1) is None
    assert parts.take(first, 2) is None
    assert parts.take(other[1], 3) is None
    for number, record in enumerate(other[1:]):
        assert parts.take(record, 4 + number) is None


def test_win_13_what_changes_a_large_state_is_an_update_and_a_snapshot_is_due_apart():
    """WIN-13."""
    shard = large()
    for offset in (30, 32, 34, 36):
        assert isinstance(shard.write(offset), StateUpdate)
    assert shard.machine.large_snapshots_due(9) == (KEY,)
    shard.snapshot()
    assert shard.machine.large_snapshots_due(9) == ()
    for offset in (40, 42, 44):
        assert not shard.machine.large_snapshots_due(9)
        shard.write(offset)
    assert shard.machine.large_snapshots_due(9) == (KEY,)
    shard.write(start_offset=43)  # few batches are left
    assert shard.machine.large_snapshots_due(9) == ()
    assert isinstance(shard.write(50), StateSnapshot)


def test_win_13_a_write_that_makes_the_state_large_is_an_update_too():
    """WIN-13."""
    shard = Shard(updates_per_snapshot=0)
    assert isinstance(shard.write(0, 2), StateSnapshot)
    assert isinstance(shard.write(4, 6, 8), StateUpdate)
    assert shard.machine.large_snapshots_due(9) == (KEY,)
    shard.take(shard.machine.delete(KEY, 0, in_metadata=True, now_ms=3).record)
    assert shard.machine.large_snapshots_due(9) == ()
    assert shard.machine.cold_snapshot(KEY, now_ms=4) == ()


def test_win_13_a_large_state_that_nobody_changes_is_cold():
    """WIN-13, SC-24."""
    shard = large()
    assert shard.machine.cold_keys(now_ms=1_000, interval_ms=900) == (KEY,)
    shard.snapshot(now_ms=1_000)
    assert shard.machine.cold_keys(now_ms=9_000, interval_ms=900) == ()
    shard.write(40)
    assert shard.machine.cold_keys(now_ms=1_800, interval_ms=900) == ()
    assert shard.machine.cold_keys(now_ms=1_900, interval_ms=900) == (KEY,)


def test_win_14_a_reader_that_does_not_know_parts_fails_and_its_message_says_why():
    """WIN-14."""
    from sharemesh.v1.state_record_pb2 import ShareStateRecord

    shard = large()
    part = shard.machine.cold_snapshot(KEY, now_ms=50)[1]
    with pytest.raises(Exception, match=r"pars|Pars"):
        ShareStateRecord().ParseFromString(encode_value(part))
    assert b"too old" in encode_key(part)
    back = decode_record(encode_key(part), encode_value(part))
    assert back == part


def test_win_15_a_leader_that_takes_no_parts_is_refused_a_large_state(monkeypatch):
    """WIN-15."""
    shard = large()
    monkeypatch.setattr(checks, "MAX_BATCHES", 9)
    words = {"in_metadata": True, "now_ms": 3}
    refused = shard.machine.read(KEY, 5, takes_parts=False, **words)
    assert refused.answer.error is ErrorCode.INVALID_REQUEST
    assert "upgrade" in refused.answer.message
    assert refused.record is None
    assert shard.machine.read(KEY, 5, **words).record is not None


@settings(max_examples=200, deadline=None)
@given(st.lists(operations, max_size=40), st.integers(0, 4), st.integers(0, 60), st.data())
def test_win_12_any_log_with_parts_adds_up_the_same(made, updates_per_snapshot, cut, data):
    """WIN-12: folded with the parts, without them, pruned, and cut at any place."""
    machine = ShareStateMachine(
        updates_per_snapshot, decode_updates, large_batches=1, part_batches=1
    )
    log = []
    for now_ms, operation in enumerate(made):
        records = (
            machine.cold_snapshot(operation[1], now_ms=now_ms)
            if operation[0] == "cold"
            else [record_of(machine, operation, now_ms)]
        )
        for record in records:
            if record is not None:
                machine.apply(record, len(log))
                log.append(record)
    assert folded(log)[0] == dict(machine.states())
    stored = [encode(record)._replace(offset=offset) for offset, record in enumerate(log)]
    assert loaded_states(stored) == dict(machine.states())
    assert loaded_states(stored[machine.prune_limit or 0 :]) == dict(machine.states())
    cut = min(cut, len(log))
    dropped = data.draw(st.integers(0, len(log)))
    whole = [each for at, each in enumerate(log[:cut]) if not is_cut_part(log, at, dropped)]
    assert folded(whole)[0] == folded(log[:cut])[0]


def is_cut_part(log, at, dropped):
    return at < dropped and isinstance(log[at], SnapshotPart)


def loaded_states(stored: list[LogRecord]):
    made = ShareStateMachine(3, decode_updates, large_batches=1, part_batches=1)
    load(made, stored, backlog_max_bytes=1 << 20)
    return dict(made.states())


@pytest.mark.parametrize("batches", [(5,), (5, 1_001, 150_001)])
def test_win_17_a_write_costs_what_it_touches(batches):
    """WIN-17: in calls, with 3,000 batches and with 100,000."""
    spent = []
    for stored in (3_000, 100_000):
        shard = Shard(updates_per_snapshot=500)
        shard.machine = ShareStateMachine(500)
        shard.take(*shard.log)
        state = combined(
            [StateBatch(2 * n, 2 * n, DeliveryState.ACKNOWLEDGED, 1) for n in range(stored)],
            (),
            start_offset=-1,
        )
        shard.machine.restore([(KEY, ShareState(0, 0, 0, 0, 0, 0, 1, 1, state))], Floors(), 0)
        spent.append(calls(lambda shard=shard: shard.write(*batches)))
    assert spent[1] <= 1.2 * spent[0], spent
