"""Large acknowledgements of one group go on in slices: turns of the loop are counted (spec FAI)."""

import asyncio
import itertools

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.share_leader.partition.share_partition_runner import SharePartitionRunner
from sharemesh.share_leader.requests.acknowledgements import (
    _CHECKED_AT_ONCE,
    AcknowledgeCaller,
    Acknowledgements,
)
from sharemesh.share_leader.turns import SLICE_UNITS, LoopTurns, SlicedWork
from tests.share_leader.world import BAR, FOO, ack, acquired, parts, topics, until, world

ACCEPT = 1
LOCKS = 1_000
HEAVY = [TopicPartition(FOO, number) for number in range(8)]
LIGHT = [TopicPartition(BAR, number) for number in range(8)]


async def holding(w, group, partitions, records, member="m1"):
    """Return a member that holds so many records of each partition."""
    await w.configure(group, auto_offset_reset="earliest")
    client = w.client(member, group=group)
    for partition in partitions:
        if w.service.partitions.get(partition) is None:
            await w.lead(partition)
        await w.produce(partition, records)
    await client.join(*partitions)
    got = await client.fetch(*partitions, max_records=records * len(partitions), batch_size=records)
    assert all(acquired(got, each) == [(0, records - 1, 1)] for each in partitions)
    return client


def singles(partitions, records):
    return [ack(each, offset, offset, ACCEPT) for each in partitions for offset in range(records)]


def begun_by(w):
    """Return what begins acknowledgements, without a session around it."""
    service = w.service
    return Acknowledgements(service._environment, service.partitions, service._access)


class Loop:
    """Counts turns of the loop while a block runs."""

    async def __aenter__(self):
        self.count, self._running = 0, True
        asyncio.get_running_loop().call_soon(self._turn)
        return self

    async def __aexit__(self, *_):
        self._running = False

    def _turn(self):
        self.count += 1
        if self._running:
            asyncio.get_running_loop().call_soon(self._turn)


async def turns_of(work):
    async with Loop() as loop:
        await work
        return loop.count


async def test_a_light_group_is_answered_in_as_many_turns_as_without_the_heavy_one():
    """FAI-1, FAI-2: what is small does not wait behind what is large."""
    async with world(manual=False) as w:
        heavy = await holding(w, "heavy", HEAVY, LOCKS)
        light = [await holding(w, f"light-{n}", [each], 10) for n, each in enumerate(LIGHT)]
        steps = iter(range(10))

        async def all_light():
            offset = next(steps)
            answers = await asyncio.gather(
                *(
                    each.acknowledge(ack(partition, offset, offset, ACCEPT))
                    for each, partition in zip(light, LIGHT, strict=True)
                )
            )
            assert not any(part.error_code for each in answers for part in parts(each).values())

        await all_light()
        quiet = await turns_of(all_light())
        request = asyncio.create_task(heavy.acknowledge(*singles(HEAVY, LOCKS)))
        await until(lambda: len(w.service.turns))
        loaded = await turns_of(all_light())
        assert not request.done(), "the heavy request was over before"
        assert loaded <= quiet + 1
        assert all(not part.error_code for part in parts(await request).values())


async def test_one_turn_of_the_loop_holds_one_slice():
    """FAI-2."""
    async with world(manual=False) as w:
        heavy = await holding(w, "heavy", HEAVY, LOCKS)
        begun = []
        acknowledge = SharePartitionRunner.acknowledge
        async with Loop() as loop:
            with pytest.MonkeyPatch.context() as patch:

                def noted(runner, *given):
                    begun.append(loop.count)
                    return acknowledge(runner, *given)

                patch.setattr(SharePartitionRunner, "acknowledge", noted)
                await heavy.acknowledge(*singles(HEAVY, LOCKS))
        assert len(begun) == len(set(begun)) == len(HEAVY)
        checks = LOCKS // _CHECKED_AT_ONCE
        assert all(after - before > checks for before, after in itertools.pairwise(begun))


async def test_two_heavy_groups_take_turns():
    """FAI-3: the one that came second is not behind the whole of the first."""
    async with world(manual=False) as w:
        first = await holding(w, "first", HEAVY, LOCKS)
        second = await holding(w, "second", LIGHT[:1], LOCKS)
        whole = asyncio.create_task(first.acknowledge(*singles(HEAVY, LOCKS)))
        await until(lambda: len(w.service.turns))
        part = await second.acknowledge(*singles(LIGHT[:1], LOCKS))
        assert not parts(part)[LIGHT[0]].error_code
        assert not whole.done()
        await whole


def suspends(coroutine):
    try:
        coroutine.send(None)
    except StopIteration:
        return False
    coroutine.close()
    return True


async def test_what_fits_a_slice_is_begun_without_a_wait():
    """FAI-1: also while others wait for turns."""
    async with world(manual=False) as w:
        await holding(w, "g", HEAVY[:1], LOCKS)
        acknowledgements = begun_by(w)
        who = AcknowledgeCaller("User:ANONYMOUS", "g", "m1", 2, is_renew_ack=False)

        def begin(*acks):
            return acknowledgements.begin(who, topics((), acks))

        assert not suspends(begin(*singles(HEAVY[:1], 100)))
        assert not suspends(begin(ack(HEAVY[0], 100, 399, *[ACCEPT] * 300)))
        assert not suspends(begin(ack(HEAVY[0], 400, 899, ACCEPT)))
        assert suspends(begin(*singles(HEAVY[:1], LOCKS)))


async def test_a_right_that_goes_while_a_request_waits_for_its_turn_is_gone():
    """FAI-5."""
    async with world(manual=False) as w:
        heavy = await holding(w, "heavy", HEAVY, LOCKS)
        request = asyncio.create_task(heavy.acknowledge(*singles(HEAVY, LOCKS)))
        await until(lambda: len(w.service.turns))
        w.rules.denied.add(("read", "group", "heavy"))
        errors = [part.error_code for part in parts(await request).values()]
        assert set(errors) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


async def test_a_request_that_is_cancelled_leaves_no_turn_behind():
    """FAI-6: at any of its turns; others go on."""
    async with world(manual=False) as w:
        heavy = await holding(w, "heavy", HEAVY, LOCKS)
        turns = w.service.turns
        acknowledgements = begun_by(w)
        who = AcknowledgeCaller("User:ANONYMOUS", "heavy", "m1", 2, is_renew_ack=False)
        for after in range(12):
            request = asyncio.create_task(
                acknowledgements.begin(who, topics((), singles(HEAVY, LOCKS)))
            )
            for _ in range(after):
                await asyncio.sleep(0)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            assert len(turns) == 0
        assert heavy


async def test_turns_that_are_cancelled_in_the_turn_in_which_they_are_given():
    """FAI-6."""
    turns = LoopTurns()
    place = HEAVY[0]
    waiting = [asyncio.create_task(turns.wait("g", place, SLICE_UNITS)) for _ in range(4)]
    await asyncio.sleep(0)
    assert len(turns) == 4
    waiting[0].cancel()
    waiting[2].cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in done] == [True, False, True, False]
    assert len(turns) == 0
    work = SlicedWork(turns, "g")
    assert not suspends(work.spend(place, SLICE_UNITS))
    assert suspends(work.spend(place, 1))
    assert len(turns) == 0
