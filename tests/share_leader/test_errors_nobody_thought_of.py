"""An error of any kind, in whatever somebody waits for, is an answer; other work goes on."""

import asyncio
import errno

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.shard_log import LogFailedError
from sharemesh.share_leader.partition.read_barrier import ReadBarrier
from sharemesh.tasks import OwnedTasks
from sharemesh.timers import Timers
from sharemesh.v1 import record_log_pb2 as pb
from sharemesh.v1 import share_leader_pb2
from tests.clocks import ManualClock
from tests.share_leader.world import FOO, TopicPartition, ack, topics, until, world

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)


def fails(error):
    async def work(*_):
        raise error

    return work


async def test_a_look_up_by_time_that_fails_is_an_error_of_its_partition_only(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        log = w.service.partitions.get(P0).log
        monkeypatch.setattr(log, "offset_for_timestamp", fails(OSError(errno.EIO, "I/O error")))
        asked = [pb.ListOffsetsPartition(topic_id=FOO, partition=n, timestamp=1) for n in (0, 1)]
        response = await w.caller().call(
            methods.LIST_OFFSETS, pb.ListOffsetsRequest(partitions=asked), to=w.address
        )
        codes = [one.error_code for one in response.partitions]
        assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
        assert "I/O error" in response.partitions[0].error_message


async def test_retention_that_fails_in_one_log_goes_on_in_the_others_and_comes_again(monkeypatch):
    async with world(retention_check_interval_ms=1_000) as w:
        await w.lead(P0)
        await w.lead(P1)
        looked = []

        async def note(_):
            looked.append(1)

        logs = [w.service.partitions.get(each).log for each in (P0, P1)]
        monkeypatch.setattr(logs[0], "apply_retention", fails(ValueError("of a bug")))
        monkeypatch.setattr(logs[1], "apply_retention", note)
        await w.clock.advance(1_000)
        await until(lambda: len(looked) == 1)
        await w.clock.advance(1_000)
        await until(lambda: len(looked) == 2)


async def test_a_stream_that_cannot_answer_an_acknowledgement_ends_with_why(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        monkeypatch.setattr(
            "sharemesh.share_leader.streaming.consume_stream.acknowledged_topics", lambda *_: 1 // 0
        )
        acknowledge = share_leader_pb2.ConsumeAcknowledge(
            acknowledge_id=1, topics=topics((), [ack(P0, 0, 0, 1)])
        )
        await stream.send(share_leader_pb2.ConsumeRequest(acknowledgements=[acknowledge]))
        message = await anext(aiter(stream))
        assert message.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "ZeroDivisionError" in message.error_message


async def test_whoever_shares_a_look_hears_when_it_is_stopped():
    class Log:
        async def look(self):
            await asyncio.sleep(3_600)

    tasks = OwnedTasks("a test")
    looks = ReadBarrier(Log(), tasks)
    first = asyncio.ensure_future(looks.look())
    await asyncio.sleep(0)
    shared = asyncio.ensure_future(looks.look())
    await asyncio.sleep(0)
    await tasks.close()
    [error] = await asyncio.gather(shared, return_exceptions=True)
    assert isinstance(error, LogFailedError)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_what_comes_again_and_again_goes_on_after_it_failed():
    clock = ManualClock()
    alarms = Timers(clock)
    calls = []

    def fails_first():
        calls.append(clock.now_ms())
        if len(calls) == 1:
            raise ValueError("of a bug")

    begun_ms = clock.now_ms()
    alarms.every(1_000, fails_first)
    await clock.advance(3_000)
    assert [each - begun_ms for each in calls] == [1_000, 2_000, 3_000]
    await alarms.close()
