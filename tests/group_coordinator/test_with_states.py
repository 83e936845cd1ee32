"""Both coordinators together: initialization, offsets and deletion, over failovers."""

import asyncio

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.group_coordinator.with_states import mesh
from tests.group_coordinator.world import assigned, topic_id


async def delete(made, *groups):
    response = await made.call(methods.DELETE_GROUPS, pb.DeleteGroupsRequest(group_ids=groups))
    return [each.error_code for each in response.results]


async def test_a_held_join_gets_partitions_that_leaders_can_read():
    async with mesh(foo=3) as both:
        answer = await both.made.joined("m1", ["foo"])
        assert assigned(answer) == {topic_id("foo"): [0, 1, 2]}
        state = await both.read("foo", 2)
        assert (state.error, state.start_offset, state.state_epoch) == (ErrorCode.NONE, -1, 2)


async def test_a_join_waits_for_the_share_coordinator_to_return():
    async with mesh(foo=1) as both:
        await both.stop_states()
        joining = asyncio.create_task(both.made.joined("m1", ["foo"]))
        await both.made.clock.settle()
        await both.start_states()
        for _ in range(100):
            await both.made.clock.advance(100)
            if joining.done():
                break
            await asyncio.sleep(0.01)
        assert assigned(await joining) == {topic_id("foo"): [0]}


async def test_a_deleted_group_that_returns_is_safe_from_requests_of_its_old_life():
    async with mesh(foo=1) as both:
        made = both.made
        await made.joined("m1", ["foo"])
        await both.read("foo", 0)
        assert await both.write("foo", 0, start=10, complete=0, epoch=2) == 0
        await made.hb("m1", -1)
        old_epoch = made.service.served[0].decisions.group("g").epoch
        assert await delete(made, "g") == [0]
        await made.start()
        await both.start_states()
        await made.joined("m1", ["foo"])
        state = await both.read("foo", 0)
        assert (state.error, state.start_offset) == (ErrorCode.NONE, -1)
        assert state.state_epoch > old_epoch
        late = await both.write("foo", 0, start=10, complete=0, epoch=2)
        assert late == ErrorCode.FENCED_STATE_EPOCH
        foo = SharePartitionKey(GroupId("g"), topic_id("foo"), 0)
        answer = await made.states.delete_state(foo, old_epoch)
        assert answer.error is ErrorCode.FENCED_STATE_EPOCH
        assert (await both.read("foo", 0)).error is ErrorCode.NONE


async def test_another_group_starts_above_the_epochs_that_were_deleted():
    async with mesh(foo=1) as both:
        made = both.made
        for _ in range(5):
            await made.joined("m1", ["foo"])
            await made.hb("m1", -1)
        assert await delete(made, "g") == [0]
        answer = await made.hb("m1", 0, ["foo"], group="new", max_wait_ms=5_000)
        assert assigned(answer) == {topic_id("foo"): [0]}


async def test_topics_that_return_under_a_new_id_start_anew():
    async with mesh(foo=1, bar=1) as both:
        made = both.made
        await made.joined("m1", ["foo", "bar"])
        await made.clock.advance(1_000)
        await made.topics(bar=1)
        group = made.service.served[0].decisions.group("g")
        await made.until(lambda: topic_id("foo") not in group.initialized)
        assert await both.offsets() == {("bar", 0): (-1, -1)}


async def test_alter_moves_the_start_offset_and_fences_leaders_of_before():
    async with mesh(foo=1) as both:
        made = both.made
        await made.joined("m1", ["foo"])
        state = await both.read("foo", 0)
        await made.hb("m1", -1)
        assert await both.alter("foo", 0, 40) == 0
        again = await both.read("foo", 0)
        assert (again.start_offset, again.state_epoch > state.state_epoch) == (40, True)
        late = await both.write("foo", 0, start=90, complete=0, epoch=state.state_epoch)
        assert late == ErrorCode.FENCED_STATE_EPOCH


async def test_a_join_goes_above_the_state_epochs_that_other_groups_left_behind():
    async with mesh(foo=1) as both:
        made = both.made
        foo = SharePartitionKey(GroupId("x"), topic_id("foo"), 0)
        await made.states.initialize_state(foo, 50, 0)
        answer = await made.states.delete_state(foo, 50)
        assert answer.error is ErrorCode.NONE
        answer = await made.joined("m1", ["foo"])
        assert assigned(answer) == {topic_id("foo"): [0]}
        state = await both.read("foo", 0)
        assert (state.error, state.start_offset) == (ErrorCode.NONE, -1)
        assert state.state_epoch > 50


async def imported(made, start_offset, *batches):
    """Alter offsets as an import does; batches are (first, last, state, count)."""
    request = pb.AlterShareGroupOffsetsRequest(group_id="g")
    altered = request.topics.add(topic_name="foo").partitions.add(
        partition=0, start_offset=start_offset
    )
    for first, last, state, count in batches:
        altered.state_batches.add(
            first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
        )
    response = await made.call(methods.ALTER_SHARE_GROUP_OFFSETS, request)
    return response.error_code or response.topics[0].partitions[0].error_code


async def test_an_import_is_one_record_with_its_delivery_states():
    async with mesh(foo=1) as both:
        assert await imported(both.made, 4, (2, 6, 2, 1), (8, 9, 4, 2), (5, 5, 0, 1)) == 0
        state = await both.read("foo", 0)
        assert state.start_offset == 4
        assert [tuple(batch)[:4] for batch in state.batches] == [(4, 6, 2, 1), (8, 9, 4, 2)]
        key = SharePartitionKey(GroupId("g"), topic_id("foo"), 0)
        summary = await both.persister.read_summary(key)
        assert (summary.start_offset, summary.delivery_complete_count) == (4, 5)


async def test_an_import_whose_coordinators_die_is_finished_as_a_whole():
    async with mesh(foo=1) as both:
        made = both.made
        await both.stop_states()
        importing = asyncio.create_task(imported(made, 4, (6, 6, 2, 1)))
        while not (group := made.service.served[0].decisions.group("g")) or not group.initializing:
            await made.clock.settle()
        await made.start()  # the next life of the group coordinator
        await asyncio.gather(importing, return_exceptions=True)
        await both.start_states()
        for _ in range(100):
            await made.clock.advance(500)
            state = await both.read("foo", 0)
            if state.error is ErrorCode.NONE:
                break
        assert (state.start_offset, len(state.batches)) == (4, 1)


async def test_an_import_that_means_nothing_changes_nothing():
    async with mesh(foo=1) as both:
        for bad in ((7, 6, 2, 1), (-1, 6, 2, 1), (6, 6, 9, 1), (6, 6, 2, -1)):
            assert await imported(both.made, 4, (5, 5, 2, 1), bad) == ErrorCode.INVALID_REQUEST
        assert both.made.service.served[0].decisions.group("g") is None
