"""How many records a group gave up, by cause (docs/spec/archived-counts.md)."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.checks import WriteRequest
from sharemesh.domain.share_state.fold import fold, fold_updates
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import (
    ArchivedCounts,
    Origin,
    StateSnapshot,
    StateUpdate,
    newly_archived,
)
from sharemesh.domain.state_batch import TERMINAL, StateBatch, combine

KEY = SharePartitionKey(GroupId("g"), TopicId(b"t" * 16), 0)
BEGUN_MS = 1_000
ARCHIVED, ACKNOWLEDGED = DeliveryState.ARCHIVED, DeliveryState.ACKNOWLEDGED
LIMIT, REJECT = Cause.DELIVERY_LIMIT, Cause.REJECT


class Log:
    """A machine, and the records it wrote."""

    def __init__(self, updates_per_snapshot=500):
        self.machine = ShareStateMachine(updates_per_snapshot)
        self.records = []
        self.now_ms = BEGUN_MS
        self.take(self.machine.initialize(KEY, 1, 0, in_metadata=True, now_ms=BEGUN_MS))

    def take(self, outcome):
        assert not outcome.answer.error, outcome.answer
        self.machine.apply(outcome.record, len(self.records))
        self.records.append(outcome.record)
        return outcome.record

    def write(self, *batches, start=0, cause=Cause.UNSPECIFIED):
        self.now_ms += 1
        made = tuple(StateBatch(*each) for each in batches)
        request = WriteRequest(1, 1, start, 0, made, Origin(cause))
        return self.take(self.machine.write(KEY, request, in_metadata=True, now_ms=self.now_ms))

    @property
    def counts(self):
        return dict(self.machine.state(KEY).archived.counts)

    def folded(self, records=None):
        state = None
        for record in self.records if records is None else records:
            state = fold(state, record)
        return state


def test_arc_1_a_state_epoch_begins_at_nothing_and_says_since_when():
    log = Log()
    assert log.machine.state(KEY).archived == ArchivedCounts(BEGUN_MS)
    log.write((0, 4, ARCHIVED, 5, LIMIT), (5, 6, ARCHIVED, 1, REJECT), (7, 9, ACKNOWLEDGED, 1))
    assert log.counts == {LIMIT: 5, REJECT: 2}
    assert log.machine.state(KEY).archived.since_ms == BEGUN_MS


def test_arc_2_a_repeated_write_a_late_one_and_a_snapshot_add_nothing():
    log = Log(updates_per_snapshot=2)
    for _ in range(4):
        log.write((0, 4, ARCHIVED, 5, LIMIT))
    log.write((2, 6, ARCHIVED, 5, LIMIT))
    log.machine.apply(log.machine.cold_snapshot(KEY, now_ms=9_999)[0], len(log.records))
    assert log.counts == {LIMIT: 7}
    log.write((20, 20, DeliveryState.AVAILABLE, 3, Cause.RELEASE))
    log.write((20, 20, ARCHIVED, 2, REJECT))
    assert log.counts == {LIMIT: 7}, "a late write loses against what stands there"


def test_arc_3_what_the_start_offset_passes_in_the_same_write_counts():
    log = Log()
    record = log.write((0, 4, ARCHIVED, 5, LIMIT), start=5)
    assert record.batches == ()
    assert log.counts == {LIMIT: 5}
    log.write((3, 6, ARCHIVED, 5, LIMIT), start=5)
    assert log.counts == {LIMIT: 7}, "below the start offset all is finished"


def test_arc_4_the_last_record_says_what_the_counts_are():
    log = Log(updates_per_snapshot=3)
    for number in range(12):
        log.write((number, number, ARCHIVED if number % 2 else ACKNOWLEDGED, 1, REJECT))
    assert log.folded().archived == log.machine.state(KEY).archived
    last = max(n for n, each in enumerate(log.records) if isinstance(each, StateSnapshot))
    assert log.folded(log.records[last:]).archived == log.folded().archived
    updates = [each for each in log.records if isinstance(each, StateUpdate)]
    one_by_one = log.folded([log.records[0], *updates])
    assert fold_updates(log.folded(log.records[:1]), updates).archived == one_by_one.archived


def test_arc_5_an_update_that_archives_without_counts_ends_them_and_the_next_begins_anew():
    log = Log()
    log.write((0, 4, ARCHIVED, 5, LIMIT))
    record = replace(log.write((5, 6, ARCHIVED, 5, LIMIT)), archived=None)
    assert log.folded([*log.records[:-1], record]).archived is None
    log.machine.apply(record, 99)
    log.write((7, 7, ACKNOWLEDGED, 1))
    assert log.machine.state(KEY).archived is None
    log.write((8, 8, ARCHIVED, 1, REJECT))
    assert log.machine.state(KEY).archived == ArchivedCounts(log.now_ms, ((REJECT, 1),))


@pytest.mark.parametrize("seed", range(60))
def test_arc_2_counts_agree_with_a_model_that_knows_each_offset(seed):
    chance = random.Random(seed)
    log, known, counted, start = Log(chance.choice((0, 3, 500))), {}, Counter(), 0
    for _ in range(40):
        batches = []
        for _ in range(chance.randint(0, 3)):
            first = chance.randint(0, 30)
            state = chance.choice((DeliveryState.AVAILABLE, ACKNOWLEDGED, ARCHIVED))
            cause = chance.choice((LIMIT, REJECT))
            batches.append(
                (first, first + chance.randint(0, 5), state, chance.randint(1, 3), cause)
            )
        written = combine(
            [StateBatch(*each) for each in batches], (), start_offset=-1, keep_causes=True
        )
        for batch in written:
            for offset in range(max(start, batch.first_offset), batch.last_offset + 1):
                old = known.get(offset, (0, 0))
                new = (batch.delivery_count, batch.delivery_state)
                if new > old:
                    if batch.delivery_state is ARCHIVED and old[1] not in TERMINAL:
                        counted[batch.cause] += 1
                    known[offset] = new
        start = max(start, chance.randint(-1, 6))
        log.write(*batches, start=start)
        assert log.counts == {cause: count for cause, count in counted.items() if count}, seed


def test_arc_2_a_batch_without_a_cause_has_that_of_its_write():
    assert newly_archived((), [StateBatch(3, 5, ARCHIVED, 1)], REJECT, start_offset=4) == {
        REJECT: 2
    }
