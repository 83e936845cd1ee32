"""Random histories of a group: rules that hold after every step, and over replay."""

import random
from dataclasses import replace

import pytest

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_group.heartbeat import deliver, remove_members
from sharemesh.domain.share_group.offsets import (
    AlteredOffset,
    alter_offsets,
    delete_offsets,
    state_deleted,
    topics_deleted,
)
from sharemesh.domain.share_group.records import NEVER_MS, StatePartitionMetadata
from sharemesh.domain.share_group.shard import GroupShard
from tests.domain.share_group.groups import GROUP, World, topic_id

NAMES = ("t1", "t2", "t3")
MEMBERS = tuple(f"m{number}" for number in range(5))


class History:
    """A world whose steps are chosen by chance; plans may be answered late, or never."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.counts = {"t1": 2}
        self.world = World(interval_ms=self.chance.choice((0, 1_000)), **self.counts)
        self.kept = []
        self.plans = []
        self.epochs = {}
        self.intended = {}
        self.told = {}
        keep = self.world.keep

        def recording(outcome):
            self.kept.extend(outcome.records)
            answer = keep(outcome)
            self.check()
            return answer

        self.world.keep = recording

    def step(self):
        chance, world = self.chance, self.world
        action = chance.choice(
            (self.beat, self.beat, self.join, self.leave, self.grow, self.answer, self.answer,
             self.review, self.time, self.deliver, self.fail, self.alter, self.forget)
        )  # fmt: skip
        action(chance.choice(MEMBERS))
        if world.plan is not None:
            self.plans.append(world.plan)
            world.plan = None

    def join(self, name):
        topics = self.chance.sample(NAMES, self.chance.randint(1, 3))
        answer = self.world.beat(name, 0, topics)
        self.told[name] = answer.assignment
        assert answer.assignment is not None

    def beat(self, name):
        group = self.world.group
        member = None if group is None else group.members.get(MemberId(name))
        if member is None:
            with pytest.raises(RefusedError):
                self.world.beat(name, 5)
            return
        answer = self.world.beat(name, member.member_epoch)
        if answer.assignment is not None:
            self.told[name] = answer.assignment
        now = self.world.group.members[MemberId(name)]
        assert now.assigned == self.told[name]
        assert now.member_epoch == answer.member_epoch == self.world.group.assignment_epoch

    def leave(self, name):
        if self.world.group is not None and MemberId(name) in self.world.group.members:
            if self.chance.random() < 0.5:
                self.world.leave(name)
            else:
                outcome = remove_members(
                    self.world.group, [MemberId(name)], self.world.group_context.catalog
                )
                self.world.keep(outcome)

    def grow(self, name):
        topic = self.chance.choice(NAMES)
        if topic in self.counts and self.chance.random() < 0.3:
            gone = self.counts.pop(topic)
            self.world.topics(**self.counts)
            if self.world.group is not None:
                self.world.keep(topics_deleted(self.world.group, {topic_id(topic): gone}))
            return
        self.counts[topic] = self.counts.get(topic, 0) + self.chance.randint(1, 3)
        self.world.topics(**self.counts)

    def answer(self, name, failed=None):
        if self.plans and self.world.group is not None:
            plan = self.plans.pop(self.chance.randrange(len(self.plans)))
            self.world.initialized(plan, failed)

    def fail(self, name):
        self.answer(name, {topic_id(topic): frozenset({0, 1}) for topic in NAMES})

    def review(self, name):
        if self.world.group is not None:
            self.world.review()

    def time(self, name):
        self.world.advance(self.chance.choice((1, 500, 1_000, 31_000)))

    def deliver(self, name):
        if self.world.group is not None:
            answers = self.world.keep(deliver(self.world.group, map(MemberId, MEMBERS)))
            self.told.update({each: answer.assignment for each, answer in answers.items()})

    def alter(self, name):
        group = self.world.group
        if group is not None and not group.members and self.counts:
            topic = self.chance.choice(sorted(self.counts))
            offsets = {topic: {0: AlteredOffset(self.chance.randint(0, 99))}}
            answer = self.world.keep(alter_offsets(group, GROUP, offsets, self.world.group_context))
            self.plans.append(answer.initialize)

    def forget(self, name):
        group = self.world.group
        if group is not None and not group.members:
            answer = self.world.keep(
                delete_offsets(group, GROUP, NAMES, self.world.group_context.catalog)
            )
            self.world.keep(state_deleted(self.world.group, answer.names))

    def check(self):
        """Epochs never go back; each try has a higher epoch; assigned means initialized."""
        group = self.world.group
        if group is None:
            return
        before = self.epochs.get("group", 0)
        assert group.epoch >= before
        self.epochs["group"] = group.epoch
        for topic, pending in group.initializing.items():
            for number, each in pending.partitions.items():
                key = (topic, number)
                assert each.state_epoch <= group.epoch
                assert each.state_epoch >= self.epochs.get(key, 0)
                self.epochs[key] = each.state_epoch
        for name, member in group.members.items():
            seen = self.epochs.get(name, (-1, None))
            assert member.member_epoch >= seen[0] or member.previous_member_epoch == -1
            self.epochs[name] = (member.member_epoch, None)
        counted = {}
        for assignment in group.targets.values():
            for topic, numbers in assignment.items():
                for number in numbers:
                    counted[topic, number] = counted.get((topic, number), 0) + 1


def forgetful(records):
    """Records as a loader sees them: moments of the writer's clock mean nothing."""
    return [
        replace(record, assigned_at_ms=NEVER_MS)
        if hasattr(record, "assigned_at_ms")
        else replace(
            record,
            initializing={
                key: replace(topic, since_ms=NEVER_MS) for key, topic in record.initializing.items()
            },
        )
        if isinstance(record, StatePartitionMetadata)
        else record
        for record in records
    ]


@pytest.mark.parametrize("seed", range(60))
def test_random_history(seed):
    history = History(seed)
    for _ in range(150):
        history.step()
    replayed = GroupShard()
    for record in history.kept:
        replayed.apply(record, 0)
    assert replayed.live_records() == history.world.shard.live_records(), f"seed {seed}"
    settle(history, seed)


def settle(history, seed):
    """From a reload on: time and answers bring every wanted partition to some member."""
    world = history.world
    loaded = GroupShard()
    for chunk in world.shard.live_records():
        for record in forgetful(chunk):
            loaded.apply(record, 0)
    world.shard = loaded
    for name in MEMBERS[:2]:
        world.beat(name, 0, NAMES)
    for _ in range(6):
        world.advance(31_000)
        world.review()
        if world.plan is not None:
            world.initialized()
    world.advance(1_000)
    world.review()
    wanted = {
        (topic_id(name), number)
        for name, count in history.counts.items()
        for number in range(count)
    }
    assigned = {
        (topic, number)
        for target in world.group.targets.values()
        for topic, numbers in target.items()
        for number in numbers
    }
    assert wanted == assigned, f"seed {seed}"
