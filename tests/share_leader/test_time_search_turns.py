"""Searches by time take turns at a leader: two at once, one of a principal (BND-35)."""

import asyncio
from contextlib import asynccontextmanager

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.share_leader.requests import record_log
from sharemesh.v1 import record_log_pb2 as pb
from tests.share_leader.world import FOO, TopicPartition, parts, until, world

P0 = TopicPartition(FOO, 0)
MALLORY, ALICE = "User:mallory", "User:alice"


class SlowSearches:
    """A log whose searches hold their turn until the test opens them."""

    def __init__(self):
        self.open = asyncio.Event()
        self.running = self.most = self.ended = 0

    async def search(self, time_ms, turn):
        async with turn():
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await self.open.wait()
            finally:
                self.running -= 1
            self.ended += 1
            return 1, time_ms


@asynccontextmanager
async def slow(monkeypatch, **settings):
    async with world(**settings) as w:
        await w.lead(P0)
        await w.produce(P0, 5)
        searches = SlowSearches()
        log = w.service.partitions.get(P0).log
        monkeypatch.setattr(log, "offset_for_timestamp", searches.search)

        def ask(principal, *times):
            asked = [pb.ListOffsetsPartition(topic_id=FOO, partition=0, timestamp=t) for t in times]
            request = pb.ListOffsetsRequest(partitions=asked)
            return asyncio.create_task(
                w.caller(principal).call(methods.LIST_OFFSETS, request, to=w.address)
            )

        yield w, searches, ask


async def test_bnd_35_one_principal_has_one_turn_and_another_the_second(monkeypatch):
    async with slow(monkeypatch) as (w, searches, ask):
        many = [ask(MALLORY, *range(64)) for _ in range(3)]
        await w.clock.settle()
        assert searches.running == 1
        one = ask(ALICE, 7)
        await until(lambda: searches.running == 2)
        searches.open.set()
        answers = await asyncio.gather(one, *many)
        assert [len(each.partitions) for each in answers] == [1, 64, 64, 64]
        assert {each.error_code for answer in answers for each in answer.partitions} == {0}
        assert (searches.most, searches.ended) == (2, 193)


async def test_bnd_35_searches_that_wait_leave_questions_for_ends_of_logs_alone(monkeypatch):
    async with slow(monkeypatch) as (w, searches, ask):
        many = [ask(MALLORY, *range(64)) for _ in range(3)]
        await w.clock.settle()
        (answer,) = (await ask(MALLORY, -1)).partitions
        assert (answer.error_code, answer.offset) == (0, 5)
        searches.open.set()
        await asyncio.gather(*many)


async def test_bnd_35_who_gets_no_turn_in_time_is_told_so(monkeypatch):
    async with slow(monkeypatch, max_time_search_wait_ms=20) as (_, searches, ask):
        first, second = ask(MALLORY, 1), ask(MALLORY, 2)
        (refused,) = (await second).partitions
        assert refused.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "ask again" in refused.error_message
        searches.open.set()
        assert (await first).partitions[0].error_code == 0


async def test_bnd_35_a_group_that_begins_at_a_time_waits_for_its_turn_as_well(monkeypatch):
    async with slow(monkeypatch) as (w, searches, _):
        await w.configure("g", auto_offset_reset="by_duration:PT1H")
        fetch = asyncio.create_task(w.client().fetch(P0, max_wait_ms=10_000))
        await w.clock.settle()
        assert searches.running == 1
        searches.open.set()
        await w.clock.advance(10_000)
        assert parts(await fetch)[P0].error_code == 0
        assert w.runner(P0).machine.start_offset == 1


async def test_bnd_35_questions_for_ends_of_logs_take_turns_over_principals(monkeypatch):
    async with slow(monkeypatch) as (w, _, ask):
        answered = asyncio.Semaphore(0)

        async def special_offset(_led, timestamp_ms):
            await answered.acquire()
            return 5, timestamp_ms

        monkeypatch.setattr(record_log, "_special_offset", special_offset)
        many = [ask(MALLORY, *[-1] * 64) for _ in range(3)]
        await w.clock.settle()
        one = ask(ALICE, -1)
        await w.clock.settle()
        for _ in range(64 + 1):
            answered.release()
        await until(one.done)
        assert [each.done() for each in many].count(False) >= 2
        for _ in range(192):
            answered.release()
        answers = await asyncio.gather(one, *many)
        assert {each.error_code for answer in answers for each in answer.partitions} == {0}


async def test_aut_4_who_may_not_see_the_topic_any_more_after_a_search_is_told_nothing(monkeypatch):
    async with slow(monkeypatch) as (w, searches, ask):
        asked = ask(ALICE, 7)
        await until(lambda: searches.running == 1)
        w.rules.denied.add(("describe", "topic", "foo"))
        searches.open.set()
        (told,) = (await asked).partitions
        assert told.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (told.offset, told.timestamp) == (-1, -1)


async def test_aut_4_who_may_not_delete_records_any_more_after_its_turn_came_deletes_none(
    monkeypatch,
):
    monkeypatch.setattr(record_log, "_PARALLEL", 1)
    async with slow(monkeypatch) as (w, _, _):
        log, may_end = w.service.partitions.get(P0).log, asyncio.Event()
        real = log.delete_records

        async def held(offset):
            await may_end.wait()
            return await real(offset)

        monkeypatch.setattr(log, "delete_records", held)

        def delete(principal, offset):
            request = pb.DeleteRecordsRequest()
            request.partitions.add(topic_id=FOO, partition=0, offset=offset)
            return asyncio.create_task(
                w.caller(principal).call(methods.DELETE_RECORDS, request, to=w.address)
            )

        first = delete(MALLORY, 1)
        await w.clock.settle()
        second = delete(ALICE, 3)
        await w.clock.settle()
        w.rules.denied.add(("delete", "topic", "foo"))
        may_end.set()
        assert (await first).partitions[0].low_watermark == 1
        assert (await second).partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert log.log_start_offset == 1
