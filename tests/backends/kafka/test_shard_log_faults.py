"""What a shard log on Kafka does when requests fail, come twice, or others write (STL-9 on)."""

import asyncio
import logging

import pytest

from sharemesh.backends.kafka.shard_logs.log_counts import StampedLogCounts
from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import (
    BrokerRefusedError,
    UnsupportedRequestError,
)
from sharemesh.ports.shard_log import CorruptLogError, FencedError, LogFailedError
from tests.backends.kafka.shard_log_bench import LOST, Bench, junk, keys_of, put, record


@pytest.fixture
def bench():
    return Bench()


# ---- commits -------------------------------------------------------------------------------------


async def test_stl_13_appends_that_wait_become_one_unit(bench):
    log = await bench.open()
    waits = []
    for n in range(200):
        log.append([record(f"{n}")])
        waits.append(log.committed(log.end_offset))
    await bench.run(asyncio.gather(*waits))
    assert [each.record_count for each in bench.stamps()] == [1, 200]


async def test_stl_13_a_unit_is_at_most_512_kib_unless_one_append_is_larger(bench):
    log = await bench.open()
    for size in (100_000, 300_000, 200_000, 900_000, 10, 10):
        log.append([record("k", size)])
    await bench.run(log.committed(log.end_offset))
    assert [each.record_count for each in bench.stamps()] == [1, 2, 1, 1, 2]


async def test_stl_5_one_unit_is_outstanding(bench):
    gate = asyncio.Event()
    bench.brokers.script = [None, gate.wait]
    log = await bench.open()
    log.append([record("a")])
    await bench.clock.settle()
    log.append([record("b")])
    await bench.clock.settle()
    assert len(bench.brokers.produced) == 2  # fence and a
    gate.set()
    await bench.run(log.committed(log.end_offset))
    assert await keys_of(bench, log) == [b"a", b"b"]


async def test_stl_8_a_unit_whose_answer_was_lost_counts_once(bench):
    log = await bench.open()
    bench.brokers.script = ["answer lost", "answer lost", None]
    await put(bench, log, "a")
    assert len({bytes(each) for each in bench.brokers.produced[1:]}) == 1
    assert await keys_of(bench, log) == [b"a"]
    await put(bench, log, "b")
    assert await keys_of(bench, log) == [b"a", b"b"]
    assert log.committed_end_offset == bench.brokers.log().end


async def test_stl_8_a_unit_behind_junk_is_stamped_anew(bench):
    log = await bench.open()
    bench.write(junk(4))
    last = log.append([record("a"), record("b")])
    await bench.run(log.committed(last + 1))
    assert await keys_of(bench, log) == [b"a", b"b"]
    assert log.end_offset == log.committed_end_offset == bench.brokers.log().end
    assert [each.stamp.expected for each in bench.stamps() if each.stamp] == [-1, 1, 7]
    assert bench.logs.counts == StampedLogCounts(void=4, restamps=1)  # junk and copy, twice


async def test_stl_14_a_lower_offset_is_no_ticket(bench):
    """Junk lies before a round of two units; a crash comes between them."""
    log = await bench.open()
    bench.write(junk(20))
    hang = asyncio.Event()
    bench.brokers.script = [None, None, hang.wait]
    first = log.append([record("a", 400_000)])
    second = log.append([record("b", 400_000)])
    waits = asyncio.ensure_future(log.committed(second + 1))
    await bench.clock.settle(200)
    assert log.committed_end_offset > second + 1  # the first unit lies above both offsets
    assert not waits.done()
    assert log.end_offset > second + 1
    waits.cancel()
    again = await bench.open(2, bench.other_process(2))
    assert await keys_of(bench, again) == [b"a"]
    assert first < second


async def test_stl_8_a_fenced_writer_confirms_nothing(bench):
    old = await bench.open(1)
    new = await bench.open(2, bench.other_process(2))
    old.append([record("a")])
    with pytest.raises(FencedError, match="epoch 2 took over at offset 1, epoch 1") as fenced:
        await bench.run(old.committed(old.end_offset))
    assert fenced.value.fence_epoch == 2
    with pytest.raises(FencedError):
        old.append([record("b")])
    await put(bench, new, "c")
    assert await keys_of(bench, new) == [b"c"]


async def test_stl_8_records_that_a_successor_deleted_fence_the_writer(bench):
    old = await bench.open(1)
    other = bench.other_process(2)
    new = await bench.open(2, other)
    await put(bench, new, "c")
    await bench.run(new.delete_before(new.committed_end_offset))
    assert bench.brokers.log().start > old.end_offset
    old.append([record("a")])
    with pytest.raises(FencedError, match="were deleted, which only a writer after epoch 1 does"):
        await bench.run(old.committed(old.end_offset))


async def test_stl_7_an_answer_below_the_expected_offset_is_corruption(bench):
    log = await bench.open()
    await put(bench, log, "a", "b")
    bench.brokers.log().batches.pop()
    log.append([record("c")])
    with pytest.raises(CorruptLogError, match="written at offset 1 where 3 was expected: records"):
        await bench.run(log.committed(log.end_offset))
    with pytest.raises(CorruptLogError):
        await log.committed(0)


@pytest.mark.parametrize(
    ("code", "name"), [(29, "TOPIC_AUTHORIZATION_FAILED"), (10, "MESSAGE_TOO_LARGE")]
)
async def test_stl_15_what_is_refused_for_good_ends_the_epoch(bench, code, name):
    log = await bench.open()
    bench.brokers.script = [BrokerRefusedError(code, name)]
    log.append([record("a")])
    with pytest.raises(
        LogFailedError, match=f"topic state partition 0: the cluster refused: {name}"
    ):
        await bench.run(log.committed(log.end_offset))
    assert len(bench.brokers.produced) == 2


async def test_stl_15_the_wait_between_tries_grows(bench):
    log = await bench.open()
    bench.brokers.script = [BrokerRefusedError(7, "REQUEST_TIMED_OUT")] * 9
    began_ms = bench.clock.now_ms()
    await put(bench, log, "a")
    assert 8_000 < bench.clock.now_ms() - began_ms < 20_000
    assert await keys_of(bench, log) == [b"a"]


async def test_stl_15_a_writer_that_lost_its_shard_gives_up_within_a_second(bench):
    log = await bench.open()
    bench.brokers.script = [LOST] * 1_000
    log.append([record("a")])
    bench.table.raise_to("state", 0, 2)
    began_ms = bench.clock.now_ms()
    with pytest.raises(FencedError):
        await bench.run(log.committed(log.end_offset))
    assert bench.clock.now_ms() - began_ms < 3_000


async def test_stl_15_a_unit_that_is_never_answered_is_given_up(bench):
    log = await bench.open()
    bench.brokers.script = [LOST] * 1_000
    log.append([record("a")])
    began_ms = bench.clock.now_ms()
    with pytest.raises(LogFailedError, match="the connection was lost"):
        await bench.run(log.committed(log.end_offset))
    assert 55_000 < bench.clock.now_ms() - began_ms < 61_000


async def test_stl_15_another_topic_under_the_name_ends_it(bench):
    log = await bench.open()
    bench.brokers.script = [BrokerRefusedError(100, "UNKNOWN_TOPIC_ID")] * 5
    bench.brokers.topic_errors = [3]  # a broker that does not know it yet
    bench.brokers.topic_ids["state"] = TopicId(bytes(15) + b"\7")
    log.append([record("a")])
    with pytest.raises(CorruptLogError, match="deleted and made again"):
        await bench.run(log.committed(log.end_offset))


async def test_stl_16_a_unit_that_waits_lets_decisions_be_refused(bench, caplog):
    caplog.set_level(logging.INFO, "sharemesh")
    log = await bench.open()
    assert log.has_room(1_000)
    bench.brokers.script = [BrokerRefusedError(19, "NOT_ENOUGH_REPLICAS")] * 10
    log.append([record("a")])
    await bench.clock.advance(1_000)
    assert log.has_room(1_000)
    await bench.clock.advance(1_500)
    assert not log.has_room(0)
    assert "topic state partition 0 has not taken a write for 2500 ms" in log.why_no_room()
    assert "NOT_ENOUGH_REPLICAS" in log.why_no_room()
    await bench.run(log.committed(log.end_offset))
    assert log.has_room(1_000)
    said = [each.getMessage() for each in caplog.records]
    assert len([each for each in said if "not answered for" in each]) == 1
    assert len([each for each in said if "answered again after" in each]) == 1


async def test_the_queue_is_bounded(bench):
    log = await bench.open(logs=bench.other_process(queued_bytes_max=10_000))
    gate = asyncio.Event()
    bench.brokers.script = [gate.wait]
    log.append([record("a")])
    await bench.clock.settle()
    log.append([record("b", 5_000)])
    assert not log.has_room(6_000)
    assert "bytes wait for topic state partition 0" in log.why_no_room()
    with pytest.raises(LogFailedError, match="are too many"):
        log.append([record("c", 6_000)])
    gate.set()
    await bench.run(log.committed(log.end_offset))
    assert await keys_of(bench, log) == [b"a", b"b"]


# ---- reads ---------------------------------------------------------------------------------------


async def test_stl_17_a_read_goes_with_a_unit_that_is_sent_after_it(bench):
    log = await bench.open()

    async def write() -> None:
        log.append([record("a")])
        await log.committed(log.end_offset)

    await bench.run(write())
    assert bench.table.looks == 0


async def test_stl_17_a_read_looks_if_the_unit_was_sent_before_it(bench):
    log = await bench.open()
    gate = asyncio.Event()
    bench.brokers.script = [gate.wait]
    log.append([record("a")])
    await bench.clock.settle()
    looks = bench.table.looks
    read = asyncio.ensure_future(log.committed(log.end_offset))
    await bench.clock.settle()
    assert bench.table.looks == looks
    gate.set()
    await bench.run(read)
    assert bench.table.looks == looks + 1


async def test_stl_17_a_look_that_is_refused_ends_the_epoch(bench):
    log = await bench.open()
    bench.table.gone = True
    with pytest.raises(FencedError):
        await log.committed(0)
    bench.table.gone = False
    with pytest.raises(FencedError):
        await log.committed(0)


# ---- pruning and closing -------------------------------------------------------------------------


async def test_stl_20_a_start_is_confirmed_before_anything_is_deleted(bench):
    log = await bench.open()
    await put(bench, log, "a", "b", "c")
    bench.brokers.script = ["answer lost", None]
    await bench.run(log.delete_before(3))
    copies = [each.stamp for each in bench.stamps() if each.stamp.start]
    assert len(copies) == 2
    assert copies[0] == copies[1]
    assert copies[0].start == 3
    assert bench.brokers.deletions == [3]
    assert await keys_of(bench, log) == [b"c"]
    await put(bench, log, "d")
    assert bench.stamps()[-1].stamp.start == 3


async def test_stl_21_the_newest_unit_is_never_deleted(bench):
    log = await bench.open()
    await put(bench, log, "a")
    end = log.committed_end_offset
    await bench.run(log.delete_before(end))
    assert bench.brokers.deletions == [end]  # the declaring unit lies there
    await log.close()
    again = await bench.open(2)
    assert again.start_offset == end


async def test_stl_21_a_deletion_that_fails_is_tried_again(bench):
    log = await bench.open()
    await put(bench, log, "a", "b", "c")
    bench.brokers.delete_error = BrokerRefusedError(7, "REQUEST_TIMED_OUT")
    await bench.run(log.delete_before(2))
    assert log.start_offset == 2
    bench.brokers.delete_error = None
    await bench.run(log.delete_before(2))
    assert bench.brokers.deletions == [2]
    await bench.run(log.delete_before(2))
    assert bench.brokers.deletions == [2]


@pytest.mark.parametrize(
    ("code", "name", "words"),
    [
        (29, "TOPIC_AUTHORIZATION_FAILED", "grant the principal the right Delete"),
        (44, "POLICY_VIOLATION", "a policy of the cluster forbids DeleteRecords"),
    ],
)
async def test_stl_21_a_deletion_without_the_right_to_it_is_warned_of_once(
    bench, caplog, code, name, words
):
    log = await bench.open()
    await put(bench, log, "a", "b", "c")

    def said() -> list[str]:
        found = [each for each in caplog.records if each.levelno >= logging.WARNING]
        return [each.getMessage() for each in found]

    bench.brokers.delete_error = BrokerRefusedError(code, name)
    await bench.run(log.delete_before(2))
    await bench.run(log.delete_before(3))
    assert len(said()) == 1
    assert name in said()[0]
    assert words in said()[0]
    bench.brokers.delete_error = None
    await bench.run(log.delete_before(3))
    assert bench.brokers.deletions == [3]
    bench.brokers.delete_error = BrokerRefusedError(code, name)  # taken away again
    await bench.run(log.delete_before(4))
    assert len(said()) == 2


async def test_own_pruning_under_a_replay_is_called_that(bench):
    log = await bench.open()
    for key in "abcdef":
        log.append([record(key, 400_000)])
    await bench.run(log.committed(log.end_offset))
    replay = log.replay()
    await anext(replay)
    await bench.run(log.delete_before(log.committed_end_offset))

    async def rest():
        return [chunk async for chunk in replay]

    with pytest.raises(LogFailedError, match="pruned by this process itself while it read them"):
        await bench.run(rest())
    await put(bench, log, "g")


async def test_stl_21_an_engine_without_deletions_is_named_once(bench, caplog):
    log = await bench.open()
    await put(bench, log, "a", "b", "c")
    bench.brokers.delete_error = UnsupportedRequestError("DeleteRecords is not offered")
    await bench.run(log.delete_before(2))
    await bench.run(log.delete_before(3))
    said = [each.getMessage() for each in caplog.records if "it only grows" in each.getMessage()]
    assert said == ["topic state partition 0: it only grows: DeleteRecords is not offered"]
    assert log.start_offset == 3


async def test_stl_15_a_request_that_hangs_is_looked_after_and_given_up(bench, caplog):
    log = await bench.open()
    bench.brokers.script = [asyncio.Event().wait]
    began_ms, looks = bench.clock.now_ms(), bench.table.looks
    log.append([record("a")])
    with pytest.raises(LogFailedError, match=r"no answer for \d+ ms: a request is not answered"):
        await bench.run(log.committed(log.end_offset))
    assert 59_000 < bench.clock.now_ms() - began_ms < 62_000
    assert 55 <= bench.table.looks - looks <= 60
    said = [each.getMessage() for each in caplog.records]
    assert len([each for each in said if "not answered for" in each]) == 1


async def test_stl_15_a_writer_whose_request_hangs_hears_within_seconds_of_its_successor(bench):
    log = await bench.open()
    bench.brokers.script = [asyncio.Event().wait]
    log.append([record("a")])
    bench.table.raise_to("state", 0, 2)
    began_ms = bench.clock.now_ms()
    with pytest.raises(FencedError):
        await bench.run(log.committed(log.end_offset))
    assert bench.clock.now_ms() - began_ms < 3_000


async def test_stl_15_a_take_over_whose_requests_hang_is_given_up(bench):
    bench.brokers.metadata = lambda *_, **__: asyncio.Event().wait()
    began_ms = bench.clock.now_ms()
    with pytest.raises(LogFailedError, match="no answer for"):
        await bench.open()
    assert bench.clock.now_ms() - began_ms <= 10_500


async def test_a_log_closes_soon_though_its_unit_is_not_answered(bench):
    log = await bench.open()
    bench.brokers.script = [asyncio.Event().wait]
    log.append([record("a")])
    wait = asyncio.ensure_future(log.committed(log.end_offset))
    await bench.clock.settle()
    await bench.run(log.close())
    with pytest.raises(LogFailedError, match="closed"):
        await wait
