"""However the initialization of a share partition ends, members hear of it (spec INI-13)."""

import asyncio
import errno

import pytest

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.ports.shard_log import FencedError
from sharemesh.share_leader.partition.share_partition_runner import Phase
from sharemesh.tasks import OwnedTasks
from sharemesh.timers import Timers
from tests.clocks import ManualClock
from tests.share_leader.world import FOO, TopicPartition, ack, acquired, parts, world

P0 = TopicPartition(FOO, 0)


def fails(error):
    async def work(*_):
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code", "why"),
    [
        (OSError(errno.EIO, "I/O error"), ErrorCode.UNKNOWN_SERVER_ERROR, "I/O error"),
        (OSError(errno.EMFILE, "too many"), ErrorCode.UNKNOWN_SERVER_ERROR, "too many"),
        (ValueError("of a bug"), ErrorCode.UNKNOWN_SERVER_ERROR, "of a bug"),
        (
            RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, "damaged"),
            ErrorCode.KAFKA_STORAGE_ERROR,
            "damaged",
        ),
        (FencedError("epoch 9 exists"), ErrorCode.NOT_LEADER_OR_FOLLOWER, "epoch 9 exists"),
    ],
    ids=["EIO", "EMFILE", "bug", "refused", "fenced"],
)
async def test_a_look_up_that_fails_is_an_error_of_the_partition_and_the_next_fetch_tries_again(
    error, code, why, monkeypatch
):
    async with world() as w:
        await w.configure("g", auto_offset_reset="by_duration:PT1H")
        await w.lead(P0)
        await w.produce(P0, 3)
        log = w.service.partitions.get(P0).log
        with monkeypatch.context() as broken:
            broken.setattr(log, "offset_for_timestamp", fails(error))
            m1 = w.client()
            entry = parts(await m1.fetch(P0, max_wait_ms=10_000))[P0]
        assert entry.error_code == code
        assert why in entry.error_message
        await m1.join(P0)
        assert w.runner(P0).phase is Phase.ACTIVE


async def test_a_read_of_the_state_that_raises_is_an_error_of_the_partition(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 3)
        with monkeypatch.context() as broken:
            broken.setattr(w.keeper, "read_state", fails(OSError(errno.EMFILE, "too many files")))
            m1 = w.client()
            entry = parts(await m1.fetch(P0, max_wait_ms=10_000))[P0]
        assert entry.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "too many files" in entry.error_message
        assert acquired(await m1.fetch(max_wait_ms=10_000), P0) == [(0, 2, 1)]


async def test_a_machine_that_breaks_while_it_loads_is_an_error_of_the_partition(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 3)

        def breaks(machine):
            raise ZeroDivisionError

        with monkeypatch.context() as broken:
            broken.setattr(SharePartition, "_activated", breaks)
            m1 = w.client()
            entry = parts(await m1.fetch(P0, max_wait_ms=10_000))[P0]
        assert entry.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert acquired(await m1.fetch(max_wait_ms=10_000), P0) == [(0, 2, 1)]


async def test_a_machine_that_breaks_answers_whoever_waits_and_begins_again(monkeypatch):
    async with world() as w:
        epoch = await w.lead(P0)
        await w.produce(P0, 3)
        m1 = w.client()
        await m1.join(P0)
        await m1.fetch()

        def breaks(*_):
            raise ZeroDivisionError

        with monkeypatch.context() as broken:
            broken.setattr(SharePartition, "_write_failed", breaks)
            w.keeper.write_error = ErrorCode.UNKNOWN_SERVER_ERROR
            answer = await m1.acknowledge(ack(P0, 0, 2, 1, epoch=epoch))
        assert parts(answer)[P0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert w.runner(P0) is None  # nothing of it is left that would hold locks
        w.keeper.write_error = ErrorCode.NONE
        assert acquired(await m1.fetch(max_wait_ms=10_000), P0) == [(0, 2, 1)]


async def test_a_task_is_heard_however_it_ends_even_if_it_never_began():
    heard = []
    tasks = OwnedTasks("a test")

    async def answer():
        return 7

    tasks.spawn_heard(answer(), heard.append)
    tasks.spawn_heard(fails(OSError("no"))(), heard.append)
    await tasks.settle()
    tasks.spawn_heard(asyncio.sleep(3_600), heard.append)
    await tasks.close()
    assert heard[0] == 7
    assert [type(each) for each in heard[1:]] == [OSError, asyncio.CancelledError]


async def test_an_alarm_that_fails_does_not_stop_those_after_it():
    clock = ManualClock()
    alarms = Timers(clock)
    heard = []
    now_ms = clock.now_ms()
    alarms.at(now_ms + 10, lambda: 1 // 0)
    alarms.at(now_ms + 10, lambda: heard.append("at the same time"))
    alarms.at(now_ms + 20, lambda: heard.append("later"))
    await clock.advance(10)
    alarms.at(now_ms + 15, lambda: heard.append("sooner than later"))
    await clock.advance(10)
    assert heard == ["at the same time", "sooner than later", "later"]
    await alarms.close()
