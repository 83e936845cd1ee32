"""Groups that are deleted and come back, leaders that change, requests that arrive late (LOG-22).

Every request is remembered and may arrive again at any later time, over restarts of the share
coordinator, cold snapshots and pruning. What belongs to an ended life, or to a leader that was
replaced, changes nothing.
"""

import random
from dataclasses import dataclass

import pytest

from tests.share_coordinator.world import Client, tuples, world

STEPS = 120


@dataclass(frozen=True)
class Request:
    """A request and to which life and leader of the share partition it belonged."""

    kind: str
    arguments: tuple
    life: int
    leader: int


class History:
    """What the group coordinator and the leaders do, and what they were told."""

    def __init__(self, rng):
        self.rng = rng
        self.life = 0  # the state epoch; it never goes back
        self.leader = 0
        self.is_alive = False
        self.start = 0
        self.done = []  # (first, last) that was confirmed in this life
        self.sent = []

    async def send(self, client, kind, *arguments):
        self.sent.append(Request(kind, arguments, self.life, self.leader))
        return await getattr(client, kind)(*arguments)

    async def step(self, client):
        if not self.is_alive:
            await self.begin(client)
        elif self.rng.random() < 0.15:
            self.leader += 1
            assert (await self.send(client, "R", self.leader)).error_code == 0
        elif self.rng.random() < 0.15:
            assert (await self.send(client, "D", self.life)).error_code == 0
            self.is_alive = False
        else:
            await self.acknowledge(client)

    async def begin(self, client):
        self.life += self.rng.randint(1, 3)
        self.start, self.done = self.rng.choice((0, 50)), []
        assert (await self.send(client, "I", self.life, self.start)).error_code == 0
        self.leader += 1  # a leader whose share partition was fenced reads again
        assert (await self.send(client, "R", self.leader)).error_code == 0
        self.is_alive = True

    async def acknowledge(self, client):
        first = self.start + 10 * self.rng.randrange(1, 8)
        batch = (first, first + 4, self.rng.choice((2, 4)), 1)
        answer = await self.send(client, "W", self.life, self.leader, self.start, 0, [batch])
        assert answer.error_code == 0
        self.done.append(batch)

    async def late(self, client):
        """Let one old request arrive again that is not of the leader and life of now."""
        old = [
            each
            for each in self.sent
            if each.life < self.life or not self.is_alive or each.leader < self.leader
        ]
        if not old:
            return
        request = self.rng.choice(old)
        await getattr(client, request.kind)(*request.arguments)

    async def check(self, client):
        summary = await client.S()
        if not self.is_alive:
            assert (summary.start_offset, summary.state_epoch) == (-1, 0)
            return
        assert (summary.state_epoch, summary.start_offset) == (self.life, self.start)
        read = await client.R(self.leader)
        assert read.error_code == 0, read.error_message
        covered = {
            offset
            for first, last, state, _ in tuples(read.state_batches)
            if state in (2, 4)
            for offset in range(first, last + 1)
        }
        assert covered == {o for first, last, *_ in self.done for o in range(first, last + 1)}


@pytest.mark.parametrize("seed", range(12))
async def test_a_late_request_changes_nothing_of_a_later_life(seed):
    """LOG-23."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    history = History(rng)
    async with world() as w:
        steps = 0
        while steps < STEPS:
            async with w.coordinator(updates_per_snapshot=rng.choice((0, 3, 500))) as service:
                client = Client(service)
                for _ in range(rng.randrange(1, 20)):
                    steps += 1
                    await history.step(client)
                    await history.late(client)
                    await history.check(client)
                    if rng.random() < 0.05:
                        await w.clock.advance(300_001)  # cold snapshots and pruning
                await history.check(client)
