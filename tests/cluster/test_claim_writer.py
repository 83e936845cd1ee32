"""Claims that change at the same time share transactions, and each gets its own answer."""

import asyncio

import pytest

from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.claims.claim_writer import ClaimWriter
from sharemesh.ports.coordination import CoordinationError, Delete, Guard, Put, SessionLostError
from tests.clocks import LoopClock


class Counting(LocalCoordination):
    """The store in this process; counts transactions, and may fail."""

    transactions = 0
    fail_with: Exception | None = None

    async def commit(self, guards, operations, *, session=None):
        self.transactions += 1
        await asyncio.sleep(0)
        if self.fail_with is not None:
            raise self.fail_with
        return await super().commit(guards, operations, session=session)


@pytest.fixture
async def store():
    store = Counting(LocalStore(LoopClock()))
    yield store
    await store.close()


def take(writer, number, session):
    key = f"/claim/{number}"
    puts = [Put(key, b"me", leased=True), Put(f"/assign/{number}", b"me")]
    return writer.commit([Guard(key, create_revision=0)], puts, session=session)


async def test_three_hundred_claims_are_taken_and_given_back_in_a_few_transactions(store):
    session = await store.open_session(ttl_ms=10_000)
    writer = ClaimWriter(store)
    tokens = await asyncio.gather(*(take(writer, number, session) for number in range(300)))
    assert all(tokens)
    assert store.transactions <= 8  # 100 operations each, and the first one alone
    store.transactions = 0
    freed = await asyncio.gather(
        *(
            writer.commit([Guard(f"/claim/{n}", create_revision=token)], [Delete(f"/claim/{n}")])
            for n, token in enumerate(tokens)
        )
    )
    assert all(freed)
    assert store.transactions <= 5
    assert not (await store.list("/claim/")).entries
    await writer.close()


async def test_one_claim_that_was_overtaken_does_not_spoil_the_others(store):
    session = await store.open_session(ttl_ms=10_000)
    await store.commit([], [Put("/claim/3", b"another")])
    writer = ClaimWriter(store)
    tokens = await asyncio.gather(*(take(writer, number, session) for number in range(10)))
    assert [number for number, token in enumerate(tokens) if token is None] == [3]
    assert (await store.get("/claim/3")).value == b"another"
    assert await store.get("/assign/3") is None
    await writer.close()


@pytest.mark.parametrize("error", [CoordinationError("away"), SessionLostError("gone")])
async def test_an_error_reaches_everyone_and_the_next_try_goes_out(store, error):
    session = await store.open_session(ttl_ms=10_000)
    writer = ClaimWriter(store)
    store.fail_with = error
    works = [asyncio.create_task(take(writer, number, session)) for number in range(5)]
    for failed in await asyncio.gather(*works, return_exceptions=True):
        assert failed is error
    store.fail_with = None
    assert await take(writer, 1, session)
    await writer.close()


async def test_a_caller_that_gave_up_is_left_out_and_closing_leaves_nobody_waiting(store):
    session = await store.open_session(ttl_ms=10_000)
    writer = ClaimWriter(store)
    first = asyncio.create_task(take(writer, 1, session))
    second = asyncio.create_task(take(writer, 2, session))
    third = asyncio.create_task(take(writer, 3, session))
    await asyncio.sleep(0)
    second.cancel()
    assert await first
    assert await third
    assert await store.get("/claim/2") is None
    left = asyncio.create_task(take(writer, 4, session))
    await asyncio.sleep(0)
    await writer.close()
    assert isinstance((await asyncio.gather(left, return_exceptions=True))[0], CoordinationError)
