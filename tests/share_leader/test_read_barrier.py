"""Which grants need a check for higher fences of their own (LOG-8)."""

import asyncio
from contextlib import contextmanager

from sharemesh.backends.embedded.owned.fences import Fences
from sharemesh.backends.embedded.owned.group_commit import LOOK_AGE_MS_MAX
from sharemesh.codec.segment import fence_name
from sharemesh.domain.errors import ErrorCode
from sharemesh.share_leader.partition.share_partition_runner import Phase
from tests.share_leader.test_consume import deliveries
from tests.share_leader.world import FOO, TopicPartition, acquired, parts, until, world

P0 = TopicPartition(FOO, 0)


@contextmanager
def counted(monkeypatch):
    """Yield a list with one entry for each check so far."""
    looks, real = [], Fences.look

    def look(fences):
        looks.append(fences)
        real(fences)

    with monkeypatch.context() as patch:
        patch.setattr(Fences, "look", look)
        yield looks


async def test_log_8_who_waited_for_a_commit_has_its_check(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        await until(lambda: w.runner(P0) is not None and w.runner(P0).has_waiters)
        with counted(monkeypatch) as looks:
            await w.produce(P0, 1)
            assert await deliveries(stream, 1) == {P0: [(0, 0, 1)]}
            assert len(looks) == 1, "that of the commit"


async def test_log_8_who_comes_after_the_commit_looks(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        client = w.client()
        await client.fetch(P0)
        await until(lambda: w.runner(P0).phase is Phase.ACTIVE)
        await w.produce(P0, 1)
        with counted(monkeypatch) as looks:
            assert acquired(await client.fetch(P0), P0) == [(0, 0, 1)]
            assert len(looks) == 1


async def test_log_8_who_waited_long_after_the_commit_looks(monkeypatch):
    """A share partition whose records were locked then; the lock of another member ends later."""
    async with world() as w:
        await w.lead(P0)
        first, second = w.client("m1"), w.client("m2")
        await first.fetch(P0)
        await until(lambda: w.runner(P0).phase is Phase.ACTIVE)
        await w.produce(P0, 1)
        assert acquired(await first.fetch(P0), P0) == [(0, 0, 1)]
        stream = await second.consume(P0)
        await until(lambda: w.runner(P0).has_waiters)
        led = w.service.partitions.get(P0)
        await led.log.look()
        await w.clock.advance(LOOK_AGE_MS_MAX + 1)
        with counted(monkeypatch) as looks:
            await first.fetch(P0, epoch=-1)
            assert await deliveries(stream, 1) == {P0: [(0, 0, 2)]}
            assert len(looks) == 1


async def test_log_8_a_check_that_began_before_the_wait_is_none_of_its_own():
    async with world() as w:
        await w.lead(P0)
        log = w.service.partitions.get(P0).log
        before = log.looks_begun()
        assert not log.has_looked_since(before)
        looking = asyncio.ensure_future(log.look())
        await until(lambda: log.looks_begun() == before + 1)
        during = log.looks_begun()
        assert not log.has_looked_since(before), "it has not passed yet"
        await looking
        assert log.has_looked_since(before)
        assert not log.has_looked_since(during), "it began before who asks came"
        await w.clock.advance(LOOK_AGE_MS_MAX)
        assert log.has_looked_since(before)
        await w.clock.advance(1)
        assert not log.has_looked_since(before), "too long ago"


async def test_log_8_a_waiting_fetch_of_a_deposed_leader_gets_nothing():
    async with world() as w:
        epoch = await w.lead(P0)
        client = w.client()
        await client.fetch(P0)
        await until(lambda: w.runner(P0).phase is Phase.ACTIVE)
        fetching = asyncio.ensure_future(client.fetch(P0, max_wait_ms=5_000))
        await until(lambda: w.runner(P0).has_waiters)
        producing = asyncio.ensure_future(w.produce(P0, 1))
        directory = next(path for path in w.disk.files() if "/fences/" in path).rpartition("/")[0]
        w.disk.create(f"{directory}/{fence_name(epoch + 1)}")
        await asyncio.gather(producing, return_exceptions=True)
        await w.clock.advance(5_000)
        part = parts(await fetching)[P0]
        assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not part.acquired_records
