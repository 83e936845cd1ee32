"""Checkers complain of what they must, and of nothing else: what no planted bug brings about."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_partition.effects import Effect, WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Event,
    Fence,
    HandOver,
    Initialize,
    LogBatch,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_state.fold import fold
from sharemesh.domain.share_state.records import StateSnapshot, StateUpdate
from sharemesh.domain.state_batch import StateBatch
from tests.simulation.checkers import state_log
from tests.simulation.checkers.fencing import FencingChecker
from tests.simulation.checkers.log_starts import LogStartChecker
from tests.simulation.checkers.state_log import StateHistory
from tests.simulation.checkers.unseen import UnseenChecker
from tests.simulation.event_log import EventLog
from tests.simulation.journal import Client, Handed, SimJournal
from tests.simulation.loop import KEPT_MAX, WALL_MS, Process
from tests.simulation.world import Options, World

KEY = SharePartitionKey(GroupId("tower"), TopicId(b"\7" * 16), 0)
BEGIN = StateSnapshot(KEY, 0, 1, 1, 1, 0, 0, WALL_MS, WALL_MS, ())
WAITING, DONE = DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED


@pytest.fixture
def world() -> Iterator[World]:
    world = World(1, Options(), EventLog())
    yield world
    world.loop.close()


def update(ms: int, *batches: StateBatch) -> StateUpdate:
    return StateUpdate(KEY, 0, 1, 1, 0, 0, WALL_MS + ms, batches)


def history(world: World, *records: StateSnapshot | StateUpdate) -> StateHistory:
    found = StateHistory(world)
    for offset, record in enumerate(records):
        found.take(0, offset, record)
    return found


def test_what_an_update_opens_again_is_told_with_the_time_of_that_update(world):
    found = history(
        world,
        BEGIN,
        update(10, StateBatch(3, 4, DONE, 1)),
        update(70, StateBatch(4, 4, WAITING, 2)),
    )
    assert [(each.offset, each.count, each.write_ms) for each in found.reopened] == [(4, 2, 70)]
    assert world.event_log.violations == []


def test_a_snapshot_that_forgets_deliveries_lowers_their_count(world):
    state = history(world, BEGIN, update(10, StateBatch(3, 4, WAITING, 2)))
    state.take(0, 2, replace(BEGIN, snapshot_epoch=1))
    assert [each.split(" (")[0] for each in world.event_log.violations] == [
        f"tower {KEY.topic_id.hex()[:6]}/0@3: stored delivery count 0 after 2",
        f"tower {KEY.topic_id.hex()[:6]}/0@4: stored delivery count 0 after 2",
    ]


def test_a_record_that_is_read_twice_is_judged_once(world):
    state = history(world, BEGIN, update(10, StateBatch(3, 4, DONE, 1)))
    state.take(0, 0, BEGIN)
    assert state.reopened == []
    assert world.event_log.violations == []


def test_a_log_that_was_pruned_unseen_is_a_violation(world):
    state = history(world, BEGIN)
    state.begins(0, 1)
    assert world.event_log.violations == []
    state.begins(0, 2)
    assert "was pruned up to 2, and read up to 1" in world.event_log.violations[0]


def test_who_takes_a_log_over_finds_all_that_was_committed(world):
    checker = FencingChecker(world)
    checker.took_over("group/0", 1, 0)
    checker.committed("group/0", 1, 7)
    checker.took_over("group/0", 2, 6)
    [text] = world.event_log.violations
    assert text.startswith("group/0 was committed up to 7, and epoch 2 found 6")


@pytest.mark.parametrize(("at_once", "is_late"), [(True, True), (False, False)])
def test_a_take_over_may_end_after_that_of_a_higher_epoch_where_fences_have_an_order(
    world, at_once, is_late
):
    world.engine.fences_at_once = at_once
    checker = FencingChecker(world)
    checker.took_over("group/0", 3, 9)
    checker.took_over("group/0", 2, 5)
    assert bool(world.event_log.violations) == is_late


def test_what_is_committed_above_a_successors_fence_is_a_violation(world):
    world.engine.fences_at_once = False
    checker = FencingChecker(world)
    checker.took_over("group/0", 1, 0)
    checker.took_over("group/0", 2, 5)
    checker.committed("group/0", 1, 5)
    assert world.event_log.violations == []
    checker.committed("group/0", 1, 8)
    [text] = world.event_log.violations
    assert text.startswith("epoch 1 committed group/0 up to 8 after epoch 2 had taken it over at 5")


def test_a_confirmed_record_goes_only_when_it_may(world):
    topic = bytes(KEY.topic_id)
    world.topic_names[topic] = "flights"
    journal = SimJournal(world)
    for offset in range(4):
        journal.produced("producer", "flights/0", offset, b"%d" % offset)
    checker = LogStartChecker(world, journal, lambda _partition, offset, _value: offset < 2)
    checker.begins(KEY.topic_id, 0, 2)
    checker.begins(KEY.topic_id, 1, 4)
    checker.begins(TopicId(rb"\8" * 16), 0, 4)
    assert world.event_log.violations == []
    assert [offset for offset in range(4) if journal.was_trimmed("flights/0", offset, 0)] == [0, 1]
    assert not journal.was_trimmed("flights/0", 0, -1), "nobody knew it then"
    checker.begins(KEY.topic_id, 0, 3)
    [text] = world.event_log.violations
    assert text == "flights/0@2 was confirmed, and the log begins at 3: nobody had it deleted"


def test_a_count_that_was_written_and_does_not_stand_is_a_violation(world, monkeypatch):
    monkeypatch.setattr(state_log, "fold", lambda before, record: before or fold(before, record))
    history(world, BEGIN, update(10, StateBatch(3, 3, WAITING, 2)))
    assert "delivery count 2 was written and does not stand" in world.event_log.violations[0]


async def _fails() -> None:
    raise KeyError("planted")


async def _passes() -> None:
    return


@pytest.mark.parametrize("others", [0, 2 * KEPT_MAX])
def test_a_task_that_fails_unheard_is_found_however_many_follow(world, others):
    process = Process(world.loop, "leader")

    async def run():
        process.start(_fails())
        for _ in range(others):
            await process.start(_passes())
        await asyncio.sleep(1)

    world.loop.run_until_complete(process.start(run()))
    [found] = process.unheard()
    assert isinstance(found.exception(), KeyError)


def test_a_failed_task_that_was_asked_is_no_complaint(world):
    process = Process(world.loop, "leader")

    async def run():
        with pytest.raises(KeyError):
            await process.start(_fails())

    world.loop.run_until_complete(process.start(run()))
    assert process.unheard() == []


class Watched:
    """A share partition whose one record a member gets, at a leader that is watched."""

    MEMBER = MemberId("m1")

    def __init__(self, world: World, *, hands_back: bool = True) -> None:
        self.world, self.journal = world, SimJournal(world)
        self.client, self.leader = Process(world.loop, "client"), Process(world.loop, "leader")
        self.journal.members[self.MEMBER] = Client(self.client, hands_back)
        self.checker = UnseenChecker(world, self.journal)
        self.machine = SharePartition(KEY, 1, GroupConfig())
        for event in (Initialize(), StateRead(ErrorCode.NONE, 1, 0)):
            self.machine.step(event, now_ms=0)
        batch = LogBatch(0, 0)
        mode = AcquireMode.BATCH_OPTIMIZED
        self.step(Acquire(1, self.MEMBER, mode, 1, 1, 0, (batch,)), 0)

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        effects = self.machine.step(event, now_ms=now_ms)
        self.leader.context().run(self.checker.seen, self.machine, event, effects)
        return effects

    def hands_over(self, *, answered: bool) -> None:
        """Let the lock live on at a next leader; of the last write this one hears, or it ends."""
        old = self.machine
        [write] = self.step(HandOver(lambda _: "User:anybody"), 10)
        assert isinstance(write, WriteState)
        self.step(StateWritten(write.write_id, ErrorCode.NONE) if answered else Fence(), 20)
        self.machine = SharePartition(KEY, 2, GroupConfig())
        self.step(Initialize(), 30)
        self.step(StateRead(ErrorCode.NONE, 1, 0, handed_over=write.hand_over), 30)
        self.leader.context().run(self.checker.handed_over, old, self.machine, 0)

    def hands_out(self) -> None:
        self.client.context().run(self.journal.handed_out, Handed(self.MEMBER, "/0", 1, 0, 1))

    def let_the_lock_end(self) -> list[str]:
        self.step(Tick(), 31_000)
        return self.world.event_log.violations


def test_a_delivery_that_counts_must_have_been_handed_out(world):
    [text] = Watched(world).let_the_lock_end()
    assert "delivery 1 to client counts, though it was never handed out: its lock ended" in text


def test_a_delivery_that_was_handed_out_counts(world):
    watched = Watched(world)
    watched.hands_out()
    assert watched.let_the_lock_end() == []


def test_a_delivery_may_count_unseen_if_its_member_could_not_speak(world):
    watched = Watched(world)
    world.network.block("client", "leader")
    world.network.heal()
    assert watched.let_the_lock_end() == []


@pytest.mark.parametrize(("answered", "complaints"), [(False, 0), (True, 1)])
def test_a_delivery_may_count_unseen_if_its_leader_ended_before_it_could_say_where_it_lives_on(
    world, answered, complaints
):
    """HND-5: then nobody is told, and locks end with their time."""
    watched = Watched(world)
    watched.hands_over(answered=answered)
    assert len(watched.let_the_lock_end()) == complaints


def test_a_client_of_another_make_may_keep_what_it_gets(world):
    assert Watched(world, hands_back=False).let_the_lock_end() == []


@pytest.mark.parametrize(("uncounted", "complaints"), [(True, 0), (False, 1)])
def test_what_nobody_saw_is_given_back_uncounted(world, uncounted, complaints):
    watched = Watched(world)
    batch = AcknowledgementBatch(0, 0, (2,), uncounted)
    watched.step(Acknowledge(2, watched.MEMBER, (batch,)), 10)
    assert len(world.event_log.violations) == complaints


def test_what_was_given_back_is_not_handed_out_any_more(world):
    watched = Watched(world)
    batch = AcknowledgementBatch(0, 0, (2,), uncounted=True)
    watched.step(Acknowledge(2, watched.MEMBER, (batch,)), 10)
    world.loop.run_until_complete(watched.leader.start(asyncio.sleep(2)))
    watched.hands_out()
    [text] = world.event_log.violations
    assert "was handed out to m1 2.0 s after it was handed back" in text
