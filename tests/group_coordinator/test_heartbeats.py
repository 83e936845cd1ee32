"""Heartbeats over the network port: spec GC-3 to GC-24, and joins that do not wait."""

import asyncio

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.group_coordinator import served_groups
from sharemesh.group_coordinator.coordinator_context import ServiceLimits
from sharemesh.ports.share_state import StateWriteResult
from sharemesh.runtime.shard import CoordinatorShard
from tests.group_coordinator.world import assigned, heartbeat_request, topic_id, world

FOO = topic_id("foo")


async def test_first_join_is_answered_at_once_and_initializes():
    async with world(foo=6) as made:
        answer = await made.hb("m1", 0, ["foo"])
        assert (answer.error_code, answer.member_epoch) == (0, 2)
        assert answer.heartbeat_interval_ms == 5_000
        assert assigned(answer) == {}
        await made.until(lambda: made.states.initialized)
        sent = {TopicPartition(FOO, number): (2, -1) for number in range(6)}
        assert made.states.initialized == [("g", sent)]


async def test_partitions_come_after_initialization():
    async with world(foo=6) as made:
        await made.hb("m1", 0, ["foo"])
        await made.until(lambda: made.service.served[0].decisions.group("g").target("m1"))
        answer = await made.hb("m1", 2)
        assert (answer.member_epoch, assigned(answer)) == (3, {FOO: [0, 1, 2, 3, 4, 5]})
        answer = await made.hb("m1", 3)
        assert (answer.member_epoch, assigned(answer)) == (3, None)


async def test_a_held_join_is_answered_with_its_partitions():
    async with world(foo=6) as made:
        answer = await made.hb("m1", 0, ["foo"], max_wait_ms=5_000)
        assert assigned(answer) == {FOO: [0, 1, 2, 3, 4, 5]}
        assert answer.member_epoch == 3


async def test_a_group_whose_review_fails_does_not_stop_the_reviews_of_others(monkeypatch, caplog):
    real = served_groups.review

    def review(group, group_context):
        if group.group_id == "broken":
            raise ZeroDivisionError
        return real(group, group_context)

    async with world(foo=6) as made:
        with monkeypatch.context() as broken:
            broken.setattr(served_groups, "review", review)
            await made.hb("m1", 0, ["foo"], group="broken")
            answer = await made.hb("m1", 0, ["foo"], max_wait_ms=5_000)
            assert assigned(answer) == {FOO: [0, 1, 2, 3, 4, 5]}
        assert "review of group 'broken' failed, again soon" in caplog.text
        await made.clock.advance(2_000)  # and its own review comes again
        await made.until(lambda: made.service.served[0].decisions.group("broken").target("m1"))


async def test_heartbeats_go_on_after_a_look_at_the_log_failed(monkeypatch):
    async with world(foo=6) as made:
        epoch = (await made.joined("m1", ["foo"])).member_epoch

        async def read(*_):
            raise ZeroDivisionError

        with monkeypatch.context() as broken:
            broken.setattr(CoordinatorShard, "read", read)
            await made.clock.advance(1_000)
            asked = asyncio.ensure_future(made.hb("m1", epoch))
            await made.clock.advance(1_000)
            assert (await asked).error_code == ErrorCode.NOT_COORDINATOR
        await made.clock.advance(2_000)
        asked = asyncio.ensure_future(made.hb("m1", epoch))
        await made.clock.advance(1_000)
        assert (await asked).error_code == ErrorCode.NONE


async def test_a_held_join_ends_when_initialization_takes_too_long():
    async with world(foo=1) as made:
        made.states.open.clear()
        answer = await made.hb("m1", 0, ["foo"], max_wait_ms=50)
        assert (answer.error_code, assigned(answer)) == (0, {})
        made.states.open.set()


async def test_a_join_to_topics_that_do_not_exist_is_not_held():
    async with world(foo=1) as made:
        async with asyncio.timeout(2):
            answer = await made.hb("m1", 0, ["bar"], max_wait_ms=5_000)
        assert (answer.error_code, assigned(answer)) == (0, {})


async def test_a_second_member_joins_a_quiet_group_without_waiting():
    async with world(foo=4) as made:
        await made.joined("m1", ["foo"])
        await made.clock.advance(1_000)
        answer = await made.joined("m2", ["foo"])
        assert assigned(answer) == {FOO: [2, 3]}


async def test_the_assignment_interval_ends_without_a_heartbeat():
    async with world(foo=4) as made:
        await made.joined("m1", ["foo"])
        joining = asyncio.create_task(made.joined("m2", ["foo"]))
        group = made.service.served[0].decisions.group("g")
        await made.until(lambda: "m2" in group.members)
        await made.clock.advance(999)
        assert not joining.done()
        await made.clock.advance(1)
        assert assigned(await joining) == {FOO: [2, 3]}


async def test_asi_1_the_assignment_interval_holds_over_a_change_of_coordinator():
    async with world(foo=4) as made:
        await made.joined("m1", ["foo"])
        await made.clock.advance(300)
        await made.start()
        joining = asyncio.create_task(made.joined("m2", ["foo"]))
        group = made.service.served[0].decisions.group("g")
        await made.until(lambda: "m2" in group.members)
        await made.clock.advance(699)
        assert not joining.done()
        await made.clock.advance(1)
        assert assigned(await joining) == {FOO: [2, 3]}


async def test_asi_1_the_assignment_interval_holds_over_a_rewritten_log():
    limits = ServiceLimits(look_interval_ms=0, compact_min_records=0, compact_factor=0)
    async with world(foo=4, limits=limits) as made:
        await made.joined("m1", ["foo"])
        await made.clock.advance(300)
        await made.service.served[0]._compact()
        await made.start()
        assert (
            made.service.served[0].decisions.group("g").assigned_at_ms == made.clock.now_ms() - 300
        )


async def test_refused_heartbeats_say_why():
    async with world(foo=1) as made:
        for member, epoch, topics, error in (
            ("", 1, None, ErrorCode.INVALID_REQUEST),
            ("m" * 37, 1, None, ErrorCode.INVALID_REQUEST),
            ("m1", 0, None, ErrorCode.INVALID_REQUEST),
            ("m1", 0, [], ErrorCode.INVALID_REQUEST),
            ("m1", -2, None, ErrorCode.INVALID_REQUEST),
            ("m1", 100, None, ErrorCode.GROUP_ID_NOT_FOUND),
            ("m1", -1, None, ErrorCode.GROUP_ID_NOT_FOUND),
        ):
            answer = await made.hb(member, epoch, topics)
            assert answer.error_code == error, (member, epoch, topics)
            assert answer.error_message
        await made.hb("m1", 0, ["foo"])
        assert (await made.hb("m2", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await made.hb("m2", -1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_leave_answers_minus_one_and_frees_the_partitions():
    async with world(foo=2) as made:
        await made.joined("m1", ["foo"])
        await made.clock.advance(1_000)
        await made.joined("m2", ["foo"])
        answer = await made.hb("m1", -1)
        assert (answer.member_epoch, answer.heartbeat_interval_ms, assigned(answer)) == (
            -1,
            0,
            None,
        )
        await made.clock.advance(1_000)
        group = made.service.served[0].decisions.group("g")
        await made.until(lambda: group.target("m2") == {FOO: (0, 1)})


async def test_a_silent_member_is_removed_and_may_rejoin():
    async with world(foo=2) as made:
        await made.joined("m1", ["foo"])
        await made.clock.advance(1_000)
        second = await made.joined("m2", ["foo"])
        epoch = second.member_epoch
        await made.clock.advance(30_000)
        await made.hb("m2", epoch)
        await made.clock.advance(15_001)
        group = made.service.served[0].decisions.group("g")
        await made.until(lambda: "m1" not in group.members)
        assert group.epoch == epoch + 1
        answer = await made.hb("m2", epoch)
        assert (answer.member_epoch, assigned(answer)) == (epoch + 1, {FOO: [0, 1]})
        assert (await made.hb("m1", 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await made.hb("m1", 0, ["foo"])).error_code == 0


async def test_assignments_are_pushed_on_the_stream():
    async with world(foo=4) as made:
        stream = await made.stream()
        messages = aiter(stream)
        await stream.send(heartbeat_request("m1", 0, ["foo"]))
        first = await anext(messages)
        assert (first.member_epoch, assigned(first)) == (2, {})
        pushed = await anext(messages)
        assert (pushed.member_epoch, assigned(pushed)) == (3, {FOO: [0, 1, 2, 3]})
        assert pushed.heartbeat_interval_ms == 5_000
        await made.clock.advance(1_000)
        await made.joined("m2", ["foo"])
        pushed = await anext(messages)
        assert assigned(pushed) == {FOO: [0, 1]}
        await stream.close()


async def test_a_heartbeat_that_crosses_pushes_is_not_fenced():
    async with world(foo=4) as made:
        stream = await made.stream()
        messages = aiter(stream)
        await stream.send(heartbeat_request("m1", 0, ["foo"]))
        assert (await anext(messages)).member_epoch == 2
        assert (await anext(messages)).member_epoch == 3
        await made.clock.advance(1_000)
        await made.joined("m2", ["foo"])
        assert (await anext(messages)).member_epoch == 4
        await stream.send(heartbeat_request("m1", 2))
        answer = await anext(messages)
        assert (answer.error_code, answer.member_epoch) == (0, 4)
        await stream.send(heartbeat_request("m1", 4))
        assert (await anext(messages)).error_code == 0
        await stream.send(heartbeat_request("m1", 2))
        assert (await anext(messages)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        await stream.close()


async def test_a_stream_that_ends_is_a_leave_after_the_linger():
    async with world(foo=4) as made:
        stream = await made.stream()
        messages = aiter(stream)
        await stream.send(heartbeat_request("m1", 0, ["foo"]))
        await anext(messages)
        await stream.close()
        group = made.service.served[0].decisions.group("g")
        await made.until(lambda: not len(made.service.served[0].streams))
        await made.clock.advance(4_999)
        assert "m1" in group.members
        await made.clock.advance(2)
        await made.until(lambda: "m1" not in group.members)


async def test_a_member_that_returns_within_the_linger_stays():
    async with world(foo=4) as made:
        stream = await made.stream()
        messages = aiter(stream)
        await stream.send(heartbeat_request("m1", 0, ["foo"]))
        epoch = (await anext(messages)).member_epoch
        await stream.close()
        await made.until(lambda: not len(made.service.served[0].streams))
        await made.clock.advance(4_000)
        again = await made.stream()
        await again.send(heartbeat_request("m1", epoch))
        answer = await anext(aiter(again))
        assert answer.error_code == 0
        await made.clock.advance(20_000)
        assert "m1" in made.service.served[0].decisions.group("g").members
        await again.close()


async def test_a_stream_serves_one_member_only():
    async with world(foo=4) as made:
        stream = await made.stream()
        messages = aiter(stream)
        await stream.send(heartbeat_request("m1", 0, ["foo"]))
        await anext(messages)
        await stream.send(heartbeat_request("m2", 0, ["foo"]))
        while not (answer := await anext(messages)).error_code:
            pass
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        await stream.close()


async def test_failover_keeps_members_and_restarts_timers():
    async with world(foo=4) as made:
        answer = await made.joined("m1", ["foo"])
        await made.clock.advance(40_000)
        await made.start()
        await made.clock.advance(44_000)
        again = await made.hb("m1", answer.member_epoch)
        assert (again.error_code, again.member_epoch, assigned(again)) == (
            0,
            answer.member_epoch,
            None,
        )
        assert len(made.states.initialized) == 1


async def test_failover_resumes_an_initialization_at_once_with_its_start_offset():
    async with world(foo=2) as made:
        made.states.open.clear()
        await made.hb("m1", 0, ["foo"])
        await made.until(lambda: made.states.initialized)
        await made.start()
        made.states.open.set()
        await made.until(lambda: len(made.states.initialized) == 2)
        _, sent = made.states.initialized[1]
        assert sent == {TopicPartition(FOO, number): (3, -1) for number in range(2)}
        await made.until(lambda: made.service.served[0].decisions.group("g").target("m1"))


async def test_a_stopped_shard_ends_streams_and_serves_no_more():
    async with world(foo=2) as made:
        stream = await made.stream()
        messages = aiter(stream)
        await stream.send(heartbeat_request("m1", 0, ["foo"]))
        await anext(messages)
        await made.service.stop_shard(0)
        assert (await made.hb("m1", 2)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await made.elect("gc-2")
        assert (await made.hb("m1", 2)).error_code == ErrorCode.NOT_COORDINATOR
        async with asyncio.timeout(5):
            assert all([message.member_epoch <= 3 async for message in stream])


async def test_a_fenced_shard_answers_not_coordinator():
    async with world(foo=2) as made:
        await made.joined("m1", ["foo"])
        taker = await made.logs.open("group", 0, made.epoch + 1)
        answer = await made.hb("m1", 3)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        await taker.close()


async def test_new_partitions_are_noticed_without_a_heartbeat_and_start_at_zero():
    async with world(foo=2) as made:
        answer = await made.joined("m1", ["foo"])
        await made.clock.advance(1_000)
        await made.topics(foo=4)
        await made.until(lambda: len(made.states.initialized) == 2)
        epoch = answer.member_epoch + 1
        sent = {TopicPartition(FOO, 2): (epoch, 0), TopicPartition(FOO, 3): (epoch, 0)}
        assert made.states.initialized[1] == ("g", sent)
        await made.clock.advance(1_000)
        group = made.service.served[0].decisions.group("g")
        await made.until(lambda: group.target("m1") == {FOO: (0, 1, 2, 3)})


async def test_a_deleted_topic_leaves_the_group_and_its_state_is_deleted():
    async with world(foo=2, bar=1) as made:
        await made.joined("m1", ["foo", "bar"])
        await made.topics(bar=1)
        await made.until(lambda: made.states.deleted)
        assert made.states.deleted[0][2] == {TopicPartition(FOO, 0), TopicPartition(FOO, 1)}
        assert FOO not in made.service.served[0].decisions.group("g").initialized


async def test_a_refused_initialization_is_repeated_above_the_epoch_that_was_known():
    async with world(foo=1) as made:
        made.states.refuse = StateWriteResult(ErrorCode.FENCED_STATE_EPOCH, "floor", 41)
        made.states.open.clear()
        await made.hb("m1", 0, ["foo"])
        await made.until(lambda: made.states.initialized)
        made.states.open.set()
        await made.until(lambda: len(made.states.initialized) == 2)
        made.states.refuse = None
        assert made.states.initialized[1][1] == {TopicPartition(FOO, 0): (42, -1)}


async def test_an_initialization_whose_shard_refuses_is_said_in_a_line_and_reviewed_gc_28(
    caplog, monkeypatch
):
    async with world(foo=1) as made:
        [served] = made.service.served
        made.states.open.clear()
        await made.hb("m1", 0, ["foo"])
        await made.until(lambda: made.states.initialized)
        with monkeypatch.context() as full:
            full.setattr(type(served.shard._log), "has_room", lambda *_: False)
            made.states.open.set()
            await made.until(lambda: "takes no writes" in caplog.text)
        [said] = [each for each in caplog.records if "job initialize" in each.getMessage()]
        assert said.levelname == "WARNING"
        assert said.exc_info is None
        assert "is put off to a review of group 'g' within 30000 ms: " in said.getMessage()
        await made.clock.advance(30_000)
        await made.until(lambda: FOO in served.decisions.group("g").initialized)
        assert len(made.states.initialized) == 2


async def test_heartbeats_that_change_nothing_share_a_look_at_the_log():
    async with world(foo=2, limits=ServiceLimits(look_interval_ms=20)) as made:
        answer = await made.joined("m1", ["foo"])
        settled = made.service.served[0].decisions.group("g")
        await made.until(lambda: not settled.stale)
        await made.clock.advance(1_000)
        assert (await made.hb("m1", answer.member_epoch)).error_code == 0
        reads = []
        shard = made.service.served[0].shard
        read = shard.read

        async def counted(look):
            reads.append(look)
            return await read(look)

        shard.read = counted
        waiting = [asyncio.create_task(made.hb("m1", answer.member_epoch)) for _ in range(50)]
        await made.clock.advance(19)
        assert not any(each.done() for each in waiting)
        await made.clock.advance(1)
        answers = await asyncio.gather(*waiting)
        assert {each.error_code for each in answers} == {0}
        assert len(reads) == 1


async def test_asi_3_a_time_of_the_last_assignment_in_the_future_counts_as_now(monkeypatch):
    async with world(foo=4) as made:
        await made.joined("m1", ["foo"])
        wall_ms = made.clock.wall_ms()
        monkeypatch.setattr(made.clock, "wall_ms", lambda: wall_ms - 3_600_000)
        await made.start()
        assert made.service.served[0].decisions.group("g").assigned_at_ms == made.clock.now_ms()
