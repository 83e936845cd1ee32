"""The group log: crashes, compaction, and what a loader finds."""

import asyncio
import random

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.group_coordinator.coordinator_context import ServiceLimits
from sharemesh.ports.network import CallFailedError
from tests.group_coordinator.world import world


def live(made):
    return made.service.served[0].shard.peek(lambda machine: machine.live_records())


@pytest.mark.parametrize("seed", range(12))
async def test_what_was_answered_is_there_after_a_power_cut(seed):
    chance = random.Random(seed)
    async with world(foo=4, bar=2) as made:
        made.disk._rng = chance
        members: dict[tuple[str, str], int] = {}
        for _ in range(3):
            for _ in range(30):
                group, member = f"g{chance.randrange(3)}", f"m{chance.randrange(4)}"
                epoch = chance.choice((0, 0, -1))
                topics = chance.sample(["foo", "bar"], chance.randint(1, 2))
                answer = await made.hb(member, epoch, topics if epoch == 0 else None, group=group)
                if answer.error_code == ErrorCode.NONE:
                    if epoch == 0:
                        members[group, member] = answer.member_epoch
                    else:
                        members.pop((group, member), None)
                await made.clock.advance(chance.choice((1, 700)))
            under_way = [
                asyncio.create_task(made.hb(f"late{number}", 0, ["foo"], group="g0"))
                for number in range(5)
            ]
            await asyncio.sleep(0)
            made.disk.crash()
            await made.start()
            late = await asyncio.gather(*under_way, return_exceptions=True)
            groups = made.service.served[0]
            for number, answer in enumerate(late):
                if not isinstance(answer, CallFailedError) and answer.error_code == 0:
                    members["g0", f"late{number}"] = answer.member_epoch
            for (group, member), epoch in members.items():
                found = groups.decisions.group(group).members.get(member)
                assert found is not None, f"seed {seed}: {group} {member}"
                assert found.member_epoch >= epoch, f"seed {seed}: {group} {member}"


async def test_a_long_log_is_rewritten_and_loads_the_same():
    limits = ServiceLimits(look_interval_ms=0, compact_min_records=50, compact_interval_ms=60_000)
    async with world(foo=4, limits=limits) as made:
        for turn in range(20):
            await made.hb(f"m{turn % 3}", 0, ["foo"], max_wait_ms=5_000 if turn == 0 else 0)
            await made.hb(f"m{turn % 3}", -1)
        await made.joined("last", ["foo"])
        shard = made.service.served[0].shard
        assert shard.log_start_offset == 0
        length = shard.log_length
        await made.clock.advance(30_000)
        await made.hb("last", 0, ["foo"])
        await made.clock.advance(30_000)
        await made.until(lambda: shard.log_start_offset >= length)
        assert shard.log_length < 20
        before = live(made)
        await made.start()
        assert [[type(each) for each in chunk] for chunk in live(made)] == [
            [type(each) for each in chunk] for chunk in before
        ]
        group = made.service.served[0].decisions.group("g")
        assert set(group.members) == {"last"}
        assert group.initialized


async def test_a_log_that_cannot_be_synced_ends_the_epoch_and_nothing_is_confirmed():
    async with world(foo=1) as made:
        await made.joined("m1", ["foo"])
        made.disk.failing_syncs.append("group")
        answer = await made.hb("m2", 0, ["foo"])
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        made.disk.failing_syncs.clear()
        await made.start()
        assert (await made.hb("m2", 0, ["foo"])).error_code == 0
