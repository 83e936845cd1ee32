"""A coordinator shard over a real log: decide, apply, commit, answer."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.shard_log import CorruptLogError, FencedError
from sharemesh.runtime import commit_round
from sharemesh.runtime.shard import TO_NEXT_PERIOD
from tests.runtime.counting import Bench, add, settle, values


@asynccontextmanager
async def benched(seed=1):
    bench = Bench(seed)
    try:
        yield bench
    finally:
        await bench.close()


async def refusal(awaitable):
    with pytest.raises(RefusedError) as caught:
        await awaitable
    return caught.value.error


def appends_to(disk):
    """Return a list that grows with each append."""
    appends = []
    disk.before = lambda op, path: appends.append(path) if op == "append" else None
    return appends


async def test_a_write_is_answered_only_when_committed_and_later_ones_see_it_before():
    """LOG-18, SC-23."""
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        bench.disk.gate.clear()
        first = asyncio.ensure_future(shard.write(add(("a", 1))))
        await settle()
        second = asyncio.ensure_future(shard.write(add(("a", 2))))
        await settle()
        assert shard.peek(values) == {"a": 3}
        assert not first.done()
        assert shard.committed_end_offset == 0
        bench.disk.gate.set()
        assert await first == [1]
        assert await second == [3]
        assert shard.committed_end_offset == 2
        assert shard.peek(lambda machine: machine.offsets) == [0, 1]


async def test_a_read_waits_until_what_it_saw_is_committed():
    """LOG-18."""
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        bench.disk.gate.clear()
        write = asyncio.ensure_future(shard.write(add(("a", 1))))
        await settle()
        read = asyncio.ensure_future(shard.read(values))
        await settle()
        assert not read.done()
        bench.disk.gate.set()
        assert await read == {"a": 1}
        assert write.done()


async def test_a_read_looks_at_the_log_after_it_arrived():
    async with benched() as bench:
        old, new = bench.shards(), bench.shards()
        await old.start_shard(0, 1)
        shard = old.shard(0)
        await shard.write(add(("a", 1)))
        await new.start_shard(0, 2)
        assert await refusal(shard.read(values)) is ErrorCode.NOT_COORDINATOR
        assert bench.ended == [0]


async def test_a_writer_that_was_taken_over_confirms_nothing():
    async with benched() as bench:
        old, new = bench.shards(), bench.shards()
        await old.start_shard(0, 1)
        shard = old.shard(0)
        await shard.write(add(("a", 1)))
        bench.disk.gate.clear()
        late = [asyncio.ensure_future(shard.write(add(("a", 10)))) for _ in range(5)]
        await settle()
        takeover = asyncio.ensure_future(new.start_shard(0, 2))
        await settle()
        bench.disk.gate.set()
        await takeover
        results = [await refusal_or_result(each) for each in late]
        assert {r for r in results if isinstance(r, ErrorCode)} <= {ErrorCode.NOT_COORDINATOR}
        confirmed = sum(not isinstance(r, ErrorCode) for r in results)
        served = await new.shard(0).read(values)
        assert served["a"] >= 1 + 10 * confirmed
        assert await refusal(shard.write(add(("a", 100)))) is ErrorCode.NOT_COORDINATOR
        assert await new.shard(0).read(values) == served


async def test_an_older_epoch_cannot_take_over():
    async with benched() as bench:
        first, second = bench.shards(), bench.shards()
        await first.start_shard(0, 5)
        with pytest.raises(FencedError):
            await second.start_shard(0, 5)
        assert await refusal(second_write(second)) is ErrorCode.NOT_COORDINATOR
        await first.shard(0).write(add(("a", 1)))


async def second_write(shards):
    await shards.shard(0).write(add(("a", 1)))


async def test_writes_of_one_tick_are_one_commit():
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        appends = appends_to(bench.disk)
        await asyncio.gather(*(shard.write(add((f"n{i % 7}", i))) for i in range(200)))
        assert len(appends) == 1


async def test_callers_that_come_back_one_by_one_share_a_commit_as_long_as_they_keep_coming(
    monkeypatch,
):
    monkeypatch.setattr(commit_round, "_STEP_MS", 10_000)  # a busy machine pauses for longer than 2
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        everybody = [asyncio.ensure_future(shard.write(add(("a", 1)))) for _ in range(8)]
        await asyncio.gather(*everybody)  # so many joined of late
        appends = appends_to(bench.disk)

        async def after(turns):
            await settle(turns)
            return await shard.write(add(("a", 1)))

        await asyncio.gather(*(after(20 * number) for number in range(8)))
        assert len(appends) == 1


async def test_few_callers_do_not_wait_for_another(monkeypatch):
    monkeypatch.setattr(commit_round, "_STEP_MS", 600_000)
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        few = (shard.write(add(("a", 1))) for _ in range(commit_round.FEW_CALLERS))
        await asyncio.gather(*few)  # so many joined of late
        async with asyncio.timeout(60):
            await shard.write(add(("a", 1)))


async def test_a_single_caller_does_not_wait_for_those_who_stay_away():
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        await asyncio.gather(*(shard.write(add(("a", 1))) for _ in range(64)))
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for _ in range(100):  # 2 ms for each of the first few, then none
            await shard.write(add(("a", 1)))
        assert loop.time() - began_s < 1


@pytest.mark.parametrize(("linger_ms", "waits"), [(0, False), (30, True)])
async def test_a_fixed_linger_holds_writes_so_long_and_reads_not_at_all(linger_ms, waits):
    async with benched() as bench:
        shards = bench.shards(linger_ms=linger_ms)
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await shard.read(values)
        first = asyncio.ensure_future(shard.write(add(("a", 1))))
        appends = appends_to(bench.disk)
        await settle()
        second = asyncio.ensure_future(shard.write(add(("a", 1))))
        await asyncio.gather(first, second)
        assert (loop.time() - began_s >= 0.030) is waits
        assert len(appends) == (1 if waits else 2)


async def test_a_fixed_linger_ends_when_a_batch_is_full():
    async with benched() as bench:
        shards = bench.shards(linger_ms=4_000, max_batch_bytes=100)
        await shards.start_shard(0, 1)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        writes = [shards.shard(0).write(add(("a" * 60, 1))) for _ in range(2)]
        await asyncio.gather(*writes)
        assert loop.time() - began_s < 2


async def test_each_request_keeps_its_own_deadline_though_one_timer_serves_all():
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        bench.disk.gate.clear()
        patient = asyncio.ensure_future(shard.write(add(("a", 1))))
        await settle()
        hasty = [shard.write(add(("a", 1)), timeout_ms=ms) for ms in (60, 20, 40)]
        for error in await asyncio.gather(*hasty, return_exceptions=True):
            assert error.error is ErrorCode.REQUEST_TIMED_OUT
        assert not patient.done()
        bench.disk.gate.set()
        assert await patient == [1]
        assert await shard.read(values) == {"a": 4}


async def test_a_failed_sync_ends_the_epoch_and_the_next_one_has_what_was_confirmed():
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        await shard.write(add(("a", 1)))
        bench.disk.failing_syncs.append("counters")
        assert await refusal(shard.write(add(("a", 1)))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert bench.ended == [0]
        for _ in range(3):
            error = await refusal(shards.shard(0).read(values))
            assert error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await shards.start_shard(0, 2)
        served = await shards.shard(0).read(values)
        assert served["a"] in (1, 2)  # the refused one may have reached the log, or not
        assert bench.ended == [0]


async def test_a_write_that_cannot_be_committed_in_time_says_so():
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        bench.disk.gate.clear()
        error = await refusal(shard.write(add(("a", 1)), timeout_ms=20))
        assert error is ErrorCode.REQUEST_TIMED_OUT
        bench.disk.gate.set()
        assert await shard.read(values) == {"a": 1}  # it took effect all the same


async def test_too_much_undone_work_makes_requests_wait_and_then_refuses_them():
    async with benched() as bench:
        shards = bench.shards(max_pending_bytes=10, max_waiting_requests=2)
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        bench.disk.gate.clear()
        tasks = [asyncio.ensure_future(shard.write(add(("a" * 10, 1))))]
        await settle()  # its commit is under way
        tasks += [asyncio.ensure_future(shard.write(add(("a" * 10, 1)))) for _ in range(3)]
        await settle()  # one decided, two waiting
        assert shard.peek(values) == {"a" * 10: 2}
        error = await refusal(shard.write(add(("a", 1))))
        assert error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        bench.disk.gate.set()
        await asyncio.gather(*tasks)
        assert await shard.read(values) == {"a" * 10: 4}


async def test_a_decision_that_does_not_fit_one_batch_changes_nothing():
    async with benched() as bench:
        shards = bench.shards(max_batch_bytes=100)
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        big = add(*[(f"name{i}", 1) for i in range(50)])
        assert await refusal(shard.write(big)) is ErrorCode.MESSAGE_TOO_LARGE
        assert await shard.read(values) == {}
        await asyncio.gather(*(shard.write(add((f"name{i}", 1))) for i in range(50)))
        await shards.start_shard(0, 2)
        assert len(await shards.shard(0).read(values)) == 50


async def test_a_refusal_by_the_decision_changes_nothing():
    def decide(_):
        raise RefusedError(ErrorCode.INVALID_REQUEST, "no")

    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        assert await refusal(shards.shard(0).write(decide)) is ErrorCode.INVALID_REQUEST
        assert await shards.shard(0).write(add(("a", 1))) == [1]


async def test_a_full_volume_refuses_writes_serves_reads_and_goes_on_when_there_is_space():
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        await shard.write(add(("a", 1)))
        bench.disk.capacity_bytes = 1 << 20
        await bench.clock.advance(1_001)  # an answer that was ample is good for a second
        await shard.write(add(("a", 1)))
        assert await refusal(shard.write(add(("a", 1)))) is ErrorCode.KAFKA_STORAGE_ERROR
        assert await shard.read(values) == {"a": 2}
        bench.disk.capacity_bytes = 1 << 40
        await refusal_or_result(shard.write(add(("b", 1))))
        await settle()
        assert await shard.write(add(("a", 1))) == [3]
        assert bench.ended == []


async def refusal_or_result(awaitable):
    try:
        return await awaitable
    except RefusedError as refused:
        return refused.error


async def test_stopping_answers_what_is_under_way_and_refuses_the_rest():
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        bench.disk.gate.clear()
        open_ones = [asyncio.ensure_future(shard.write(add(("a", 1)))) for _ in range(3)]
        await settle()
        stopping = asyncio.ensure_future(shards.stop_shard(0))
        await settle()
        assert await refusal(shard.write(add(("a", 1)))) is ErrorCode.NOT_COORDINATOR
        bench.disk.gate.set()
        await stopping
        assert [await each for each in open_ones] == [[1], [2], [3]]
        with pytest.raises(RefusedError):
            shards.shard(0)
        assert bench.ended == []


async def test_jobs_of_a_shard_go_on_after_a_failure_and_stop_when_it_moves(caplog):
    async with benched() as bench:
        runs = []

        def loaded(shard):
            async def job():
                runs.append(shard.epoch)
                if len(runs) == 2:
                    raise ValueError("second run fails")

            shard.every(1_000, "counting", job)

        shards = bench.shards(on_loaded=loaded)
        await shards.start_shard(0, 1)
        await bench.clock.advance(3_500)
        assert runs == [1, 1, 1]
        assert "second run fails" in caplog.text
        await shards.start_shard(0, 2)
        await bench.clock.advance(1_000)
        assert runs == [1, 1, 1, 2]
        await shards.stop_shard(0)
        await bench.clock.advance(5_000)
        assert runs == [1, 1, 1, 2]


async def test_work_that_is_kept_begins_anew_after_a_failure_and_ends_with_the_shard(caplog):
    async with benched() as bench:
        runs = []

        async def work():
            runs.append(1)
            if len(runs) == 1:
                raise ValueError("of a bug")
            await bench.clock.sleep_ms(3_600_000)

        shards = bench.shards(on_loaded=lambda shard: shard.keep("working", work))
        await shards.start_shard(0, 1)
        await bench.clock.advance(5_000)
        assert len(runs) == 2
        assert "job working failed" in caplog.text
        await shards.stop_shard(0)
        await bench.clock.advance(3_600_000)
        assert len(runs) == 2


async def test_a_refused_job_that_comes_again_anyhow_is_no_error(caplog):
    async with benched() as bench:

        async def job():
            raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, "its volume is full")

        shards = bench.shards()
        await shards.start_shard(0, 1)
        shards.shard(0).start_job("sweep", job(), put_off=TO_NEXT_PERIOD)
        await settle()
        assert "job sweep is put off to its next period: its volume is full" in caplog.text
        assert all(record.levelname != "ERROR" for record in caplog.records)
        shards.shard(0).start_job("sweep", job())
        await settle()
        assert any(record.levelname == "ERROR" for record in caplog.records)


async def test_a_job_that_is_refused_is_put_off_and_no_error(caplog):
    async with benched() as bench:
        runs = []

        def loaded(shard):
            async def job():
                runs.append(shard.epoch)
                if len(runs) == 1:
                    raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, "its volume is full")

            shard.every(1_000, "counting", job)

        shards = bench.shards(on_loaded=loaded)
        await shards.start_shard(0, 1)
        await bench.clock.advance(2_500)
        assert runs == [1, 1]
        assert "job counting is put off by 1000 ms: its volume is full" in caplog.text
        assert all(record.levelname != "ERROR" for record in caplog.records)
        await shards.stop_shard(0)


async def test_jobs_stop_when_the_epoch_ends_by_itself():
    async with benched() as bench:
        runs = []

        def loaded(shard):
            async def job():
                runs.append(shard.epoch)

            shard.every(1_000, "counting", job)

        shards = bench.shards(on_loaded=loaded)
        await shards.start_shard(0, 1)
        bench.disk.failing_syncs.append("counters")
        await refusal(shards.shard(0).write(add(("a", 1))))
        await bench.clock.advance(5_000)
        assert runs == []


async def test_a_load_takes_turns_with_the_loop_and_skips_what_it_does_not_know():
    async with benched() as bench:
        shards = bench.shards(load_slice_records=10)
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        await asyncio.gather(*(shard.write(add((f"n{i}", i))) for i in range(200)))
        await shards.stop_shard(0)
        turns = 0
        loading = asyncio.ensure_future(shards.start_shard(0, 2))
        while not loading.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 20
        assert await shards.shard(0).read(values) == {f"n{i}": i for i in range(200)}


async def test_a_load_tells_how_far_it_is(caplog):
    async with benched() as bench:
        shards = bench.shards(load_slice_records=50, load_report_interval_ms=0)
        await shards.start_shard(0, 1)
        await asyncio.gather(*(shards.shard(0).write(add((f"n{i}", i))) for i in range(200)))
        await shards.stop_shard(0)
        caplog.set_level("INFO", "sharemesh.counters-0")
        await shards.start_shard(0, 2)
        told = [message for message in caplog.messages if message.startswith("loading")]
        assert [each.partition(": ")[2] for each in told] == [
            f"{count} records, {count // 2} %" for count in (50, 100, 150, 200)
        ]


@pytest.mark.parametrize("seed", range(20))
async def test_over_crashes_what_was_confirmed_stays_and_no_decision_is_half_there(seed):
    print("seed", seed)
    rng = random.Random(seed)
    async with benched(seed) as bench:
        confirmed, tried = 0, 0
        for epoch in range(1, 8):
            shards = bench.shards()
            await shards.start_shard(0, epoch)
            shard = shards.shard(0)
            state = await shard.read(values)
            assert state.get("a", 0) == state.get("b", 0) == state.get("c", 0)
            assert confirmed <= state.get("a", 0) <= tried
            writes = []
            for _ in range(rng.randrange(40)):
                writes.append(asyncio.ensure_future(shard.write(add(("a", 1), ("b", 1), ("c", 1)))))
                tried += 1
                if rng.random() < 0.3:
                    await settle(rng.randrange(12))
            fate = rng.randrange(3)
            if fate == 0:
                bench.disk.failing_syncs.append("counters")
            elif fate == 1:
                bench.disk.gate.clear()
            await settle(rng.randrange(6))
            confirmed += sum(w.done() and w.exception() is None for w in writes)
            bench.disk.crash()
            bench.disk.gate.set()
            bench.disk.failing_syncs.clear()
            for each in writes:
                before = each.done()
                result = await refusal_or_result(each)
                if not before and not isinstance(result, ErrorCode):
                    confirmed += 1
            await shards.close()


@pytest.mark.parametrize("has_job", [False, True])
async def test_stl_15_a_log_that_is_found_corrupt_ends_the_shard_in_one_line_without_traceback(
    caplog, monkeypatch, has_job
):
    async with benched() as bench:
        shards = bench.shards()
        await shards.start_shard(0, 1)
        shard = shards.shard(0)
        await shard.write(add(("a", 1)))

        async def committed(end_offset):
            raise CorruptLogError("topic state partition 0: it was made again; restore it")

        monkeypatch.setattr(shard._log, "committed", committed)
        if has_job:
            shard.start_job("pruning", shard._log.committed(0))
        assert await refusal(shard.write(add(("a", 1)))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await settle()
        assert bench.ended == [0]
        told = [each for each in caplog.records if "it was made again" in each.getMessage()]
        assert len(told) == 1 + has_job
        assert all(each.exc_info is None for each in caplog.records)
