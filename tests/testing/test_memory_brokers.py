"""The cluster in memory goes wrong as real ones do, and never where Kafka promises something."""

import asyncio
from contextlib import closing
from itertools import pairwise
from random import Random

import pytest

from sharemesh.ports.brokers import (
    LATEST_TIMESTAMP,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    NewBrokerTopic,
    WatchedPartition,
)
from tests.contract.broker_fillings import batch_of
from tests.simulation.loop import Process, SimLoop
from tests.testing.memory_bed import FAILED, Bed, frames, refusal_of, simulated, values


def test_a_zombie_leader_answers_reads_with_old_ends_and_takes_appends_that_never_commit():
    async def test(bed):
        await bed.put(b"a")
        old = bed.leader()
        bed.cluster.cut_off(old)
        other = bed.cluster.client()
        assert bed.leader() != old
        bed.client.cut_from = {each: None for each in bed.cluster.brokers if each != old}
        assert await refusal_of(bed.put(b"lost")) == 7
        produced = await other.produce(bed.place, batch_of(b"b"), timeout_ms=1_000)
        assert produced.base_offset == 1
        for ends in (
            (await bed.again(lambda: bed.client.list_offset(bed.place, LATEST_TIMESTAMP))).offset,
            (await bed.again(lambda: bed.client.fetch(bed.place, 0, max_bytes=1))).high_watermark,
        ):
            assert ends == 1
        bed.cluster.rejoin(old)
        bed.client.cut_from = {}
        assert await bed.read() == [b"a", b"b"]
        bed.cluster.move_leader("t", to=old)
        assert await bed.read() == [b"a", b"b"]

    simulated(test)


def test_a_leader_change_loses_the_tail_that_nobody_copied_and_its_write_may_be_done():
    async def test(bed):
        await bed.put(b"a")
        for broker_id in bed.cluster.brokers:
            bed.cluster.pause_replication(broker_id)
        writing = asyncio.create_task(bed.put(b"lost"))
        await asyncio.sleep(0.01)
        bed.cluster.move_leader("t")
        assert await refusal_of(writing) == 6
        for broker_id in bed.cluster.brokers:
            bed.cluster.resume_replication(broker_id)
        assert await bed.again(lambda: bed.put(b"b")) == 1
        assert await bed.read() == [b"a", b"b"]

    simulated(test)


def test_a_new_leader_does_not_know_the_end_before_the_others_have_asked_it():
    async def test(bed):
        await bed.put(b"a")
        await asyncio.sleep(0)
        for broker_id in bed.cluster.brokers:
            bed.cluster.pause_replication(broker_id)
        new = bed.cluster.move_leader("t")
        replica = bed.cluster.brokers[new].replicas[bed.place.topic_id, 0]
        replica.high_watermark = 0  # as if it had not heard of the last commit
        look = bed.client.list_offset
        assert await refusal_of(_second_try(look, bed.place)) == 78
        for broker_id in bed.cluster.brokers:
            bed.cluster.resume_replication(broker_id)
        found = await bed.again(lambda: look(bed.place, LATEST_TIMESTAMP))
        assert found.offset == 1

    async def _second_try(look, place):
        try:
            return await look(place, LATEST_TIMESTAMP)
        except BrokerRefusedError as error:
            if error.code == 78:
                raise
            return await look(place, LATEST_TIMESTAMP)

    simulated(test)


def test_a_follower_that_lags_leaves_the_in_sync_set_and_comes_back():
    async def test(bed):
        await bed.put(b"a")
        lagging = next(each for each in bed.cluster.brokers if each != bed.leader())
        bed.cluster.pause_replication(lagging)
        writing = asyncio.create_task(bed.put(b"b", timeout_ms=20_000))
        await asyncio.sleep(1)
        assert not writing.done()
        assert await writing == 1
        assert lagging not in _in_sync(bed)
        bed.cluster.resume_replication(lagging)
        await asyncio.sleep(0.1)
        assert lagging in _in_sync(bed)

    simulated(test)


def _in_sync(bed) -> tuple[int, ...]:
    return bed.cluster.controller.partition("t", 0)[1].in_sync


def test_a_frozen_broker_answers_by_what_it_knew_once_it_is_thawed():
    async def test(bed):
        bed.cluster.session_ms = (3_000.0, 3_000.0)
        bed.cluster.news_ms = (50.0, 50.0)
        await bed.put(b"a")
        old = bed.leader()
        bed.cluster.freeze(old)
        with pytest.raises(BrokerUnreachableError, match="no answer within"):
            await bed.put(b"late")
        assert bed.leader() != old
        assert await bed.again(lambda: bed.put(b"b")) == 1
        bed.cluster.thaw(old)
        stale = bed.cluster.brokers[old].replicas[bed.place.topic_id, 0]
        assert stale.log.end_offset == 2  # it took the late write, as the leader it was
        await asyncio.sleep(1)
        assert await bed.read() == [b"a", b"b"]
        assert stale.log.end_offset == 2
        assert values(stale.log.read(0, 2, 1 << 20, whole_first=True)) == [b"a", b"b"]

    simulated(test)


@pytest.mark.parametrize(("trouble", "copies"), [("lost", 0), ("unanswered", 1), ("late", 1)])
def test_what_fails_may_be_done_or_not_and_perhaps_later(trouble, copies):
    async def test(bed):
        await bed.put(b"a")
        setattr(bed.cluster.troubles, trouble, 1_000)
        with pytest.raises(BrokerUnreachableError):
            await bed.put(b"b")
        bed.cluster.troubles.end()
        await asyncio.sleep(15)
        assert await bed.read() == [b"a"] + [b"b"] * copies
        assert bed.cluster.troubles.counts == {trouble: 1}

    simulated(test)


def test_a_doubled_request_writes_twice():
    async def test(bed):
        bed.cluster.troubles.doubled = 1_000
        assert await bed.put(b"a") == 0
        await asyncio.sleep(15)
        assert await bed.read() == [b"a", b"a"]

    simulated(test)


@pytest.mark.parametrize(
    ("trouble", "code", "written"), [("too_few", 19, 0), ("too_few_after", 20, 1)]
)
def test_replicas_may_be_too_few_before_and_after_the_append(trouble, code, written):
    async def test(bed):
        setattr(bed.cluster.troubles, trouble, 1_000)
        assert await refusal_of(bed.put(b"a")) == code
        bed.cluster.troubles.end()
        assert await bed.read() == [b"a"] * written

    simulated(test)


def test_a_broker_that_hears_late_of_a_leader_tells_of_the_old_one():
    async def test(bed):
        await bed.put(b"a")
        bed.cluster.news_ms = (500.0, 500.0)
        before = bed.leader()
        after = bed.cluster.move_leader("t")
        answers = {(await _leader_by(bed)) for _ in range(3)}
        assert answers == {before}
        await asyncio.sleep(1)
        assert {(await _leader_by(bed)) for _ in range(3)} == {after}

    async def _leader_by(bed) -> int:
        return (await bed.client.metadata(["t"])).topics[0].partitions[0].leader

    simulated(test)


def test_a_broker_without_room_for_sessions_is_asked_for_everything_each_time():
    async def test(bed):
        for broker in bed.cluster.brokers.values():
            broker.sessions.room = 0
        await bed.put(b"a")
        watch = bed.client.watch()
        watch.set([WatchedPartition(bed.place, 1, 1 << 20)])
        for _ in range(3):
            [answer] = await _polled(watch)
            assert answer.fetched.high_watermark == 1

    async def _polled(watch):
        while not (answers := await watch.poll(1_000)):
            pass
        return answers

    simulated(test)


def test_a_watch_goes_to_a_new_leader_at_once_while_the_old_one_has_news_of_others():
    async def test(bed):
        other = bed.cluster.create(NewBrokerTopic("u", 3, 3, {}))
        led = {n: bed.cluster.leader("u", n) for n in range(3)}
        stays = next(n for n, leader in led.items() if leader == bed.leader())
        place = BrokerPartition(other, "u", stays)
        watch = bed.client.watch()
        watch.set([WatchedPartition(each, 0, 1) for each in (bed.place, place)])
        await watch.poll(1_000)
        bed.cluster.news_ms = (0.0, 0.0)  # else the old one is asked again, and answers
        bed.cluster.move_leader("t")
        moved_s, told_s = bed.loop.time(), None
        while told_s is None and bed.loop.time() - moved_s < 5:
            bed.cluster.append("u", stays, batch_of(b"news"))
            for each in await watch.poll(10):
                if each.partition == bed.place and each.fetched and each.fetched.leader_epoch == 1:
                    told_s = bed.loop.time()
        assert told_s is not None
        assert told_s - moved_s < 1

    simulated(test)


def test_a_watch_tells_of_an_unreachable_leader_each_10_s_and_goes_on_when_it_is_back():
    async def test(bed):
        watch = bed.client.watch()
        watch.set([WatchedPartition(bed.place, 0, 1 << 20)])
        await watch.poll(1_000)
        bed.client.cut_off = True
        told_s = []
        for _ in range(100):
            for each in await watch.poll(500):
                assert each.error == 13
                told_s.append(bed.loop.time())
        assert len(told_s) > 1
        assert all(later - earlier >= 10 for earlier, later in pairwise(told_s))
        bed.client.cut_off = False
        bed.cluster.append("t", 0, batch_of(b"a"))
        answers = []
        while not any(each.fetched and each.fetched.records for each in answers):
            answers += await watch.poll(500)

    simulated(test)


def test_a_killed_client_takes_nothing_with_it_that_it_sent():
    async def test(bed):
        process = Process(bed.loop, "client")
        process.start(bed.put(b"mine"))
        bed.cluster.troubles.travel_ms = (5.0, 5.0)
        await asyncio.sleep(0.012)
        process.kill()
        await asyncio.sleep(1)
        other = bed.cluster.client()
        fetched = await other.fetch(bed.place, 0, max_bytes=1 << 20)
        assert values(fetched.records) == [b"mine"]

    simulated(test)


def test_a_follower_that_is_far_behind_begins_where_the_leaders_log_does():
    async def test(bed):
        behind = next(each for each in bed.cluster.brokers if each != bed.leader())
        bed.cluster.kill(behind)
        records = batch_of(b"a", b"b", b"c")
        await bed.client.produce(bed.place, records, timeout_ms=1_000)
        bed.cluster.trim("t", 0, 2)
        await bed.put(b"d")
        bed.cluster.start(behind)
        await asyncio.sleep(1)
        log = bed.cluster.brokers[behind].replicas[bed.place.topic_id, 0].log
        assert (log.start_offset, log.end_offset) == (2, 4)
        bed.cluster.move_leader("t", to=behind)
        fetched = await bed.again(lambda: bed.client.fetch(bed.place, 2, max_bytes=1 << 20))
        assert values(fetched.records) == [b"a", b"b", b"c", b"d"]

    simulated(test)


def test_a_tail_that_ends_where_the_leaders_log_starts_inside_a_batch_is_given_up():
    async def test(bed):
        await bed.put(b"a")
        old = bed.leader()
        for broker_id in bed.cluster.brokers:
            bed.cluster.pause_replication(broker_id)
        bed.cluster.append("t", 0, batch_of(b"tail", b"tail"))
        bed.cluster.kill(old)
        for broker_id in bed.cluster.brokers:
            bed.cluster.resume_replication(broker_id)
        records = batch_of(b"b", b"c", b"d", b"e")
        await bed.again(lambda: bed.client.produce(bed.place, records, timeout_ms=1_000))
        bed.cluster.trim("t", 0, 3)
        bed.cluster.start(old)
        await asyncio.sleep(1)
        assert frames(bed, old) == frames(bed) == [(1, 5, [1, 2, 3, 4])]

    simulated(test)


def test_nothing_is_appended_at_a_leader_that_does_not_know_it_or_does_not_run():
    """Else two leaders write under one epoch."""

    async def test(bed):
        bed.cluster.news_ms = (500.0, 500.0)
        bed.cluster.move_leader("t")
        with pytest.raises(BrokerRefusedError, match="NOT_LEADER"):
            bed.cluster.append("t", 0, batch_of(b"a"))
        await asyncio.sleep(1)
        assert bed.cluster.append("t", 0, batch_of(b"a")) == 0
        bed.cluster.session_ms = (500.0, 500.0)
        bed.cluster.kill(bed.leader())
        with pytest.raises(BrokerRefusedError, match="NOT_LEADER"):
            bed.cluster.append("t", 0, batch_of(b"b"))

    simulated(test)


def test_an_unclean_leader_loses_what_was_confirmed_and_the_others_follow_it():
    async def test(bed):
        await bed.put(b"a")
        first = bed.leader()
        others = [each for each in bed.cluster.brokers if each != first]
        for each in others:
            bed.cluster.kill(each)
        await bed.put(b"lost")
        bed.cluster.kill(first)
        assert bed.leader() == -1
        for each in others:
            bed.cluster.start(each)
        assert bed.leader() == -1
        bed.cluster.elect_unclean("t", 0, others[0])
        assert await bed.again(lambda: bed.put(b"b")) == 1
        bed.cluster.start(first)
        await asyncio.sleep(1)
        assert bed.cluster.brokers[first].replicas[bed.place.topic_id, 0].log.end_offset == 2
        assert await bed.read() == [b"a", b"b"]

    simulated(test, min_in_sync="1")


# ---- what Kafka promises ------------------------------------------------------------------------

FATES = ("kill", "freeze", "cut_off", "move", "pause", "news", "evict")
BACK = {"kill": "start", "freeze": "thaw", "cut_off": "rejoin", "pause": "resume_replication"}


async def _fate(bed, rng) -> None:
    """One fault after the other; at most one broker is away at a time."""
    cluster = bed.cluster
    while True:
        await asyncio.sleep(rng.uniform(0.2, 4))
        kind, broker_id = rng.choice(FATES), rng.choice(list(cluster.brokers))
        if kind in BACK:
            away = {"pause": "pause_replication"}.get(kind, kind)
            getattr(cluster, away)(broker_id)
            await asyncio.sleep(rng.uniform(0.1, 9))
            getattr(cluster, BACK[kind])(broker_id)
        elif kind == "move":
            try:
                cluster.move_leader("t")
            except ValueError:
                continue
        elif kind == "news":
            cluster.news_ms = (0.0, rng.choice((5.0, 500.0, 5_000.0)))
        else:
            cluster.evict_sessions()


async def _write(bed, name: str, rng, confirmed: dict[int, bytes], trace: list) -> None:
    client, number = bed.cluster.client(), 0
    while True:
        number += 1
        value = f"{name}-{number}".encode()
        try:
            produced = await client.produce(
                bed.place, batch_of(value), timeout_ms=rng.choice((500, 3_000))
            )
        except FAILED as error:
            trace.append(f"{bed.loop.time():.6f} {value!r} {error}")
            await asyncio.sleep(0.05)
        else:
            trace.append(f"{bed.loop.time():.6f} {value!r} {produced.base_offset}")
            assert produced.base_offset not in confirmed, "two writers were told the same offset"
            confirmed[produced.base_offset] = value
            await asyncio.sleep(rng.uniform(0, 0.1))


async def _read_on(bed, seen: list[bytes]) -> None:
    """Read up to the high watermark, as a consumer that keeps what it has read."""
    client = bed.cluster.client()
    while True:
        try:
            fetched = await client.fetch(bed.place, len(seen), max_bytes=1 << 20, max_wait_ms=500)
        except FAILED:
            await asyncio.sleep(0.05)
            continue
        seen += values(fetched.records)


def _lived(seed: int) -> tuple[list, dict[str, int]]:
    loop = SimLoop(Random(seed))

    async def test():
        bed, rng, trace = Bed(loop, seed), Random(seed), []
        cluster, troubles = bed.cluster, bed.cluster.troubles
        cluster.session_ms, cluster.replication_ms = (1_000.0, 3_000.0), (0.5, 20.0)
        cluster.news_ms, troubles.travel_ms = (0.0, 50.0), (0.1, 3.0)
        for name in ("lost", "unanswered", "late", "doubled", "too_few_after", "throttled"):
            setattr(troubles, name, 15)
        confirmed: dict[int, bytes] = {}
        seen: list[bytes] = []
        work = [_fate(bed, rng), _read_on(bed, seen)]
        work += [_write(bed, name, Random(f"{seed}{name}"), confirmed, trace) for name in "ab"]
        tasks = [asyncio.create_task(each) for each in work]
        await asyncio.sleep(60)
        for task in tasks:
            assert not task.done(), task.exception()
            task.cancel()
        cluster.heal()
        await asyncio.sleep(30)
        whole = await bed.read()
        assert len(confirmed) > 50
        assert {at: whole[at] for at in confirmed} == confirmed
        assert whole[: len(seen)] == seen
        logs = [each.replicas[bed.place.topic_id, 0].log for each in cluster.brokers.values()]
        assert len({log.read(0, 1 << 40, 1 << 30, whole_first=True) for log in logs}) == 1
        return trace, troubles.counts

    with closing(loop):
        return loop.run_until_complete(loop.world.start(test()))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_confirmed_or_seen_stays_where_it_is_whatever_happens_to_one_broker(seed):
    _, counts = _lived(seed)
    assert counts["late"]
    assert counts["doubled"]


def test_a_seed_says_everything():
    assert _lived(3) == _lived(3)
