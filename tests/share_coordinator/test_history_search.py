"""ReadShareRecordHistory: what became of one record, out of the log (EXP-2, EXP-5, EXP-11)."""

import asyncio

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.share_coordinator.service import ShareCoordinatorService
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.share_coordinator.world import CONTEXT, T1, Client, world

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
MALLORY, ALICE = "User:mallory", "User:alice"


async def test_exp_2_the_durable_state_and_its_events_are_told_and_nothing_changes():
    async with world() as w:
        async with w.coordinator() as service:
            g, other = Client(service), Client(service, partition=1)
            for each in (g, other):
                await each.I(3, 0)
            await g.W(3, 1, 0, 0, [(0, 9, AVAILABLE, 1)])
            await other.W(3, 1, 0, 10, [(0, 9, ACKNOWLEDGED, 7)])
            await g.W(3, 1, 0, 1, [(4, 4, ACKNOWLEDGED, 2)])
            await w.clock.advance(5)
            told = await g.H(4)
            assert (told.error_code, told.state_epoch, told.start_offset) == (0, 3, 0)
            assert (told.delivery_state, told.delivery_count) == (ACKNOWLEDGED, 2)
            events = [(e.delivery_state, e.delivery_count) for e in told.events]
            assert events == [("", 0), ("AVAILABLE", 1), ("ACKNOWLEDGED", 2)]
            assert told.events_are_whole
            assert not (await g.H(99)).HasField("delivery_state")
        assert len(await w.log()) == 5


async def test_exp_2_of_a_share_partition_without_state_nothing_is_told():
    async with world() as w, w.coordinator() as service:
        told = await Client(service, group="nosuch").H(0)
        assert (told.error_code, told.HasField("state_epoch"), list(told.events)) == (0, False, [])


async def test_arc_6_a_summary_tells_what_was_archived_and_a_load_knows_it():
    async with world() as w:
        async with w.coordinator() as service:
            await Client(service).I(1, 0)
            await Client(service).W(1, 1, 0, 5, [(0, 4, ARCHIVED, 5)])
        async with w.coordinator() as service:
            told = await Client(service).S()
            assert [(each.cause, each.count) for each in told.archived.counts] == [(0, 5)]
            assert told.archived.since_ms == w.clock.wall_ms()
            assert not (await Client(service, partition=1).S()).HasField("archived")


async def test_exp_4_a_deleted_life_is_told_and_does_not_count():
    async with world() as w, w.coordinator() as service:
        g = Client(service)
        await g.I(1, 0)
        await g.W(1, 1, 0, 1, [(0, 0, ACKNOWLEDGED, 1)])
        await g.D()
        told = await g.H(0)
        assert [e.cause for e in told.events] == ["INITIALIZE", "UNSPECIFIED", "DELETE"]
        assert not told.HasField("state_epoch")


@pytest.mark.parametrize(
    "bound", [{"history_records": 3}, {"history_matches": 3}, {"history_match_bytes": 150}]
)
async def test_exp_5_a_bounded_search_keeps_the_newest_and_says_from_when_on(bound):
    async with world() as w, w.coordinator(**bound) as service:
        g = Client(service)
        await g.I(1, 0)
        times = []
        for count in range(1, 11):
            await w.clock.advance(1_000)
            await g.W(1, 1, 0, 0, [(0, 0, AVAILABLE, count)])
            times.append(w.clock.wall_ms())
        told = await g.H(0)
        counts = [each.delivery_count for each in told.events]
        assert 1 <= len(counts) <= 3
        assert counts == list(range(11 - len(counts), 11))
        assert not told.events_are_whole
        assert told.events_from_ms == times[-len(counts)]


async def test_exp_5_searches_wait_for_each_other_and_too_many_are_refused():
    async with world() as w, w.coordinator(history_requests=2) as service:
        g = Client(service)
        await g.I(1, 0)
        told = await asyncio.gather(*(g.H(0) for _ in range(4)))
        assert all(each.state_epoch == 1 for each in told)
        refused = [each for each in told if each.events_problem]
        assert len(refused) == 2
        assert "other searches" in refused[0].events_problem
        assert not (await g.H(0)).events_problem


def held_searches(service):
    """Let each search wait; return who searched, in turn, and what lets one go on."""
    shard, began, go_on = service.shards.shard(0), [], asyncio.Queue()

    async def stored(_):
        began.append(asyncio.current_task().get_name())
        await go_on.get()
        yield ()

    shard.stored = stored
    return began, go_on


async def test_exp_11_principals_take_turns_in_the_searches():
    async with world() as w, w.coordinator() as service:
        g = Client(service)
        await g.I(1, 0)
        began, go_on = held_searches(service)
        many = [asyncio.create_task(g.H(0, MALLORY), name="mallory") for _ in range(5)]
        one = asyncio.create_task(g.H(0, ALICE), name="alice")
        await w.clock.settle()
        for _ in range(6):
            go_on.put_nowait(None)
        await asyncio.gather(one, *many)
        assert began == ["mallory", "alice", *["mallory"] * 4]


async def test_exp_11_one_principal_has_at_most_half_of_the_places():
    async with world() as w, w.coordinator(history_requests=4) as service:
        g = Client(service)
        await g.I(1, 0)
        _, go_on = held_searches(service)
        asked = [asyncio.create_task(g.H(0, who)) for who in [MALLORY] * 3 + [ALICE]]
        await w.clock.settle()
        for _ in asked:
            go_on.put_nowait(None)
        *of_mallory, of_alice = await asyncio.gather(*asked)
        [refused] = [each.events_problem for each in of_mallory if each.events_problem]
        assert refused == "2 other searches of User:mallory are under way; ask again"
        assert not of_alice.events_problem


async def test_exp_11_a_principal_of_more_characters_than_any_has_is_refused():
    async with world() as w, w.coordinator() as service:
        g = Client(service)
        await g.I(1, 0)
        told = await g.H(0, "User:" + "a" * 996)
        assert told.error_code == ErrorCode.INVALID_REQUEST
        assert told.error_message == "A principal has at most 1000 characters, not 1001."


async def test_exp_5_more_records_in_one_request_than_searches_are_refused_as_a_whole():
    async with world() as w, w.coordinator(history_requests=2) as service:
        items = [pb.ReadHistoryPartition(partition=n) for n in range(3)]
        topic = pb.ReadHistoryTopic(topic_id=T1, partitions=items)
        request = pb.ReadShareRecordHistoryRequest(group_id="g", topics=[topic])
        with pytest.raises(CallFailedError) as refused:
            await service.read_history(request, CONTEXT)
        assert refused.value.failure is Failure.RESOURCE_EXHAUSTED


async def test_exp_5_a_search_that_takes_too_long_is_cut_and_says_so():
    async with world() as w, w.coordinator(history_time_ms=1) as service:
        g = Client(service)
        await g.I(1, 0)
        hold = asyncio.Event()
        shard = service.shards.shard(0)

        async def stuck(_):
            await hold.wait()
            yield ()

        shard.stored = stuck
        told = await g.H(0)
        assert "not searched within 1 ms" in told.events_problem
        assert told.state_epoch == 1


async def test_exp_8_only_processes_of_the_cluster_may_ask():
    async with world() as w:

        class Nobody:
            def allows(self, *_):
                return False

        service = ShareCoordinatorService(
            w.view, w.clock, w.logs, ShareCoordinatorSettings(), authorizer=Nobody()
        )
        service.start()
        told = await Client(service).H(0)
        assert told.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await service.close()
