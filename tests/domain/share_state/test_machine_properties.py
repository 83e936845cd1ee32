"""Random requests: what the machine serves is what its log adds up to, and nothing goes back."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.checks import WriteRequest
from sharemesh.domain.share_state.fold import Floors, fold, fold_floors, fold_updates
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import StateSnapshot, StateUpdate, Tombstone
from sharemesh.domain.state_batch import StateBatch, combine

KEYS = [SharePartitionKey(GroupId("g"), TopicId(b"\1" * 16), p) for p in range(3)]
keys = st.sampled_from(KEYS)
epochs = st.integers(0, 6)
offsets = st.integers(-1, 40)


@st.composite
def batches(draw):
    first = draw(st.integers(0, 40))
    return StateBatch(
        first,
        first + draw(st.integers(0, 8)),
        draw(st.sampled_from(DeliveryState)),
        draw(st.integers(0, 4)),
    )


operations = st.one_of(
    st.tuples(st.just("initialize"), keys, epochs, offsets),
    st.tuples(st.just("read"), keys, epochs),
    st.tuples(
        st.just("write"),
        keys,
        epochs,
        epochs,
        offsets,
        st.integers(-1, 20),
        st.lists(batches(), max_size=4).map(tuple),
    ),
    st.tuples(st.just("delete"), keys, epochs),
    st.tuples(st.just("cold"), keys),
    st.tuples(st.just("floor")),
)


def outcome_of(machine, operation, now_ms):
    match operation:
        case ("initialize", key, epoch, offset):
            return machine.initialize(key, epoch, offset, in_metadata=True, now_ms=now_ms)
        case ("read", key, epoch):
            return machine.read(key, epoch, in_metadata=True, now_ms=now_ms)
        case ("write", key, state_epoch, leader_epoch, start, count, new):
            request = WriteRequest(state_epoch, leader_epoch, start, count, new)
            return machine.write(key, request, in_metadata=True, now_ms=now_ms)
        case ("delete", key, epoch):
            return machine.delete(key, epoch, in_metadata=True, now_ms=now_ms)
    return None


def record_of(machine, operation, now_ms):
    if operation[0] == "cold":
        return next(iter(machine.cold_snapshot(operation[1], now_ms=now_ms)), None)
    if operation[0] == "floor":
        return machine.cold_floor(now_ms=now_ms, interval_ms=0)
    outcome = outcome_of(machine, operation, now_ms)
    if outcome.answer.error is not ErrorCode.NONE:
        assert outcome.record is None
    return outcome.record


def folded(records):
    states, floors = {}, Floors()
    for record in records:
        floors = fold_floors(floors, record)
        if isinstance(record, StateSnapshot | StateUpdate | Tombstone):
            states[record.key] = fold(states.get(record.key), record)
    return {key: state for key, state in states.items() if state is not None}, floors


def check_no_way_back(before, after):
    if before is None or after is None:
        return
    assert after.state_epoch >= before.state_epoch
    assert after.leader_epoch_max >= before.leader_epoch_max
    assert after.snapshot_epoch >= before.snapshot_epoch
    if after.snapshot_epoch == before.snapshot_epoch:
        assert after.start_offset >= before.start_offset
        assert after.leader_epoch >= before.leader_epoch


@settings(max_examples=300, deadline=None)
@given(st.lists(operations, max_size=40), st.integers(0, 4))
def test_the_log_adds_up_to_what_is_served_also_after_pruning(made, updates_per_snapshot):
    """SC-17."""
    machine = ShareStateMachine(updates_per_snapshot)
    log = []
    for now_ms, operation in enumerate(made):
        record = record_of(machine, operation, now_ms)
        if record is None:
            continue
        key = getattr(record, "key", None)
        before = None if key is None else machine.state(key)
        machine.apply(record, len(log))
        log.append(record)
        if key is not None:
            check_no_way_back(before, machine.state(key))
        served = dict(machine.states()), machine.floors
        assert folded(log) == served
        limit = machine.prune_limit or 0
        assert folded(log[limit:]) == served
    again = ShareStateMachine(updates_per_snapshot)
    for offset, record in enumerate(log):
        again.apply(record, offset)
    assert (dict(again.states()), again.floors) == (dict(machine.states()), machine.floors)
    assert again.prune_limit == machine.prune_limit


def fair(operation):
    """Leave out batches whose delivery count beats that of a finished record."""
    if operation[0] != "write":
        return operation
    return (*operation[:6], tuple(b for b in operation[6] if b.delivery_count <= 1))


@settings(max_examples=200, deadline=None)
@given(st.lists(operations, max_size=40))
def test_a_finished_record_stays_finished_within_its_state_epoch(made):
    machine = ShareStateMachine(3)
    final = {}
    for now_ms, operation in enumerate(made):
        record = record_of(machine, fair(operation), now_ms)
        if record is None:
            continue
        key = getattr(record, "key", None)
        machine.apply(record, now_ms)
        state = None if key is None else machine.state(key)
        if (isinstance(record, StateSnapshot) and not record.batches) or state is None:
            final.pop(key, None)
        if state is None:
            continue
        done = {
            offset
            for b in state.batches
            if b.delivery_state is DeliveryState.ARCHIVED and b.delivery_count == 1
            for offset in range(b.first_offset, b.last_offset + 1)
        }
        for offset in final.get(key, ()):
            assert offset in done or offset < state.start_offset
        final[key] = done


updates = st.builds(
    StateUpdate,
    st.just(KEYS[0]),
    st.just(0),
    st.just(1),
    st.integers(-1, 5),
    offsets,
    st.integers(-1, 9),
    st.just(7),
    st.lists(batches(), max_size=3).map(tuple),
)
snapshots = st.builds(
    StateSnapshot,
    st.just(KEYS[0]),
    st.integers(0, 3),
    epochs,
    epochs,
    epochs,
    offsets,
    st.integers(-1, 9),
    st.just(1),
    st.just(2),
    st.lists(batches(), max_size=2).map(lambda new: combine((), new, start_offset=-1)),
)


@settings(max_examples=400, deadline=None)
@given(st.none() | snapshots, st.lists(updates, max_size=8), st.booleans())
def test_folding_many_updates_at_once_is_folding_them_one_by_one(snapshot, made, rising):
    if rising:
        made = sorted(made, key=lambda each: each.start_offset)
    state = None if snapshot is None else fold(None, snapshot)
    expected = state
    for each in made:
        expected = fold(expected, each)
    assert fold_updates(state, made) == expected
