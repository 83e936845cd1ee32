"""A partition in error beside others: long polls go on, errors are told (DF-5, DF-9, INI-13)."""

import asyncio

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId
from sharemesh.share_leader.partition.share_partition_runner import Phase
from tests.share_leader.world import BAZ, FOO, TopicPartition, acquired, parts, until, world

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)
UNKNOWN = TopicPartition(TopicId(b"u" * 16), 0)


def errors(response):
    """Return {partition: error} of the entries that have one."""
    found = {partition: entry.error_code for partition, entry in parts(response).items()}
    return {partition: ErrorCode(code) for partition, code in found.items() if code}


async def test_a_refused_partition_does_not_end_the_wait_of_the_others():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await m1.join(P0, UNKNOWN)
        for _ in range(3):
            waiting = asyncio.create_task(m1.fetch(max_wait_ms=5_000))
            await w.clock.advance(4_999)
            assert not waiting.done()
            await w.clock.advance(1)
            response = await waiting
            assert errors(response) == {UNKNOWN: ErrorCode.UNKNOWN_TOPIC_ID}
            assert acquired(response, P0) == []


async def test_records_end_the_wait_beside_a_refused_partition():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await m1.join(P0, UNKNOWN)
        waiting = asyncio.create_task(m1.fetch(max_wait_ms=5_000))
        await w.clock.settle()
        assert not waiting.done()
        await w.produce(P0, 2)
        response = await waiting
        assert errors(response) == {UNKNOWN: ErrorCode.UNKNOWN_TOPIC_ID}
        assert acquired(response, P0) == [(0, 1, 1)]


async def test_a_fetch_whose_partitions_are_all_in_error_is_answered_at_once():
    async with world() as w:
        response = await w.client().fetch(P1, UNKNOWN, max_wait_ms=5_000)
        assert errors(response) == {
            P1: ErrorCode.NOT_LEADER_OR_FOLLOWER,
            UNKNOWN: ErrorCode.UNKNOWN_TOPIC_ID,
        }


async def test_an_initialization_that_fails_beside_a_refused_partition_is_told():
    async with world() as w:
        await w.lead(P0)
        w.keeper.read_error = ErrorCode.GROUP_ID_NOT_FOUND
        response = await w.client().fetch(P0, UNKNOWN, max_wait_ms=5_000)
        assert errors(response) == {
            P0: ErrorCode.GROUP_ID_NOT_FOUND,
            UNKNOWN: ErrorCode.UNKNOWN_TOPIC_ID,
        }


async def test_a_failed_initialization_ends_the_wait_once_not_again_and_again():
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        m1 = w.client()
        await m1.join(P0)
        w.keeper.read_error = ErrorCode.GROUP_ID_NOT_FOUND
        failed = {P1: ErrorCode.GROUP_ID_NOT_FOUND}
        assert errors(await m1.fetch(P1, max_wait_ms=5_000)) == failed  # news
        waiting = asyncio.create_task(m1.fetch(max_wait_ms=5_000))
        await w.clock.advance(4_999)
        assert not waiting.done()
        await w.clock.advance(1)
        assert errors(await waiting) == failed
        w.keeper.read_error = ErrorCode.NONE
        await w.produce(P1, 2)
        assert acquired(await m1.fetch(max_wait_ms=5_000), P1) == [(0, 1, 1)]


async def test_a_partition_that_fails_alone_is_answered_at_once_each_time():
    async with world() as w:
        await w.lead(P0)
        w.keeper.read_error = ErrorCode.GROUP_ID_NOT_FOUND
        m1 = w.client()
        for _ in range(3):
            response = await m1.fetch(P0, max_wait_ms=5_000)
            assert errors(response) == {P0: ErrorCode.GROUP_ID_NOT_FOUND}


async def test_leadership_that_is_lost_ends_the_wait_beside_other_partitions():
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        m1 = w.client()
        await m1.join(P0, P1)
        waiting = asyncio.create_task(m1.fetch(max_wait_ms=5_000))
        await w.clock.settle()
        await w.service.stop_partition(P1)
        assert errors(await waiting) == {P1: ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_a_stream_goes_on_beside_a_refused_partition_and_one_that_fails():
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        reader = w.client("m0")
        await reader.join(P0)
        w.keeper.read_error = ErrorCode.GROUP_ID_NOT_FOUND
        m1 = w.client()
        messages = aiter(await m1.consume(P0, P1, UNKNOWN))
        told = {}
        while len(told) < 2:
            told |= errors(await anext(messages))
        assert told == {P1: ErrorCode.GROUP_ID_NOT_FOUND, UNKNOWN: ErrorCode.UNKNOWN_TOPIC_ID}
        reads = len(w.keeper.reads)
        await w.clock.advance(900)  # the one that failed rests for a second
        assert len(w.keeper.reads) == reads
        await w.produce(P0, 2)
        assert acquired(await anext(messages), P0) == [(0, 1, 1)]
        w.keeper.read_error = ErrorCode.NONE
        await w.clock.advance(100)
        await until(lambda: (runner := w.runner(P1)) is not None and runner.phase is Phase.ACTIVE)


async def test_ses_15_a_topic_that_was_unknown_is_served_once_it_is_there():
    async with world() as w:
        late = TopicPartition(BAZ, 0)
        m1 = w.client()
        refused = await m1.fetch(late)
        assert errors(refused) == {late: ErrorCode.UNKNOWN_TOPIC_ID}
        await w.create_topic(BAZ, "baz", 1)
        await w.lead(late)
        await w.produce(late, 3)
        assert errors(await m1.fetch(max_records=0)) == {}
        await until(lambda: w.runner(late) and w.runner(late).phase is Phase.ACTIVE)
        assert acquired(await m1.fetch(), late) == [(0, 2, 1)]
