"""What a grant says for fencing tokens: each later delivery is greater (docs/spec/delivery.md)."""

from types import SimpleNamespace

from sharemesh.client.records import RecordGrant, fencing_token
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from tests.share_leader.test_consume import state
from tests.share_leader.test_delayed_retry import P0, RELEASE, held
from tests.share_leader.world import ack, acquired, parts, world

AVAILABLE = DeliveryState.AVAILABLE


class Deliveries:
    """Fetches as one member after the other, and notes the token of each delivery."""

    def __init__(self, w):
        self.world = w
        self.tokens = []

    async def fetch(self, member, count=1):
        client = self.world.client(member)
        await client.join(P0)
        answer = await client.fetch()
        return client, self.note(answer, count)

    def note(self, answer, count):
        part = parts(answer)[P0]
        assert acquired(answer, P0) == [(0, 9, count)]
        grant = RecordGrant(part.state_epoch, part.acquisition_number)
        token = fencing_token(grant, part.leader_epoch, count)
        assert all(token > each and str(token) > str(each) for each in self.tokens)
        self.tokens.append(token)
        return token


async def leading(w):
    await w.configure("g", auto_offset_reset="earliest")
    await w.lead(P0)
    await w.produce(P0, 10)
    return Deliveries(w)


async def test_tok_3_after_releases_that_count_and_that_do_not():
    """TOK-3: an uncounted release leaves the count as it was (HBK-2, HND-1)."""
    async with world() as w:
        told = await leading(w)
        m1, _ = await told.fetch("m1")
        await m1.acknowledge(ack(P0, 0, 9, RELEASE, uncounted=True))
        m2, again = await told.fetch("m2")
        assert (again.delivery_count, again.leader_epoch) == (1, told.tokens[0].leader_epoch)
        await m2.acknowledge(ack(P0, 0, 9, RELEASE, uncounted=True, delay_ms=100))
        await w.clock.advance(100)
        m3, _ = await told.fetch("m3")
        await m3.acknowledge(ack(P0, 0, 9, RELEASE))
        await told.fetch("m4", 2)


async def test_tok_3_after_a_lock_that_expired():
    async with world() as w:
        told = await leading(w)
        await told.fetch("m1")
        await w.clock.advance(30_000)
        await told.fetch("m2", 2)


async def test_tok_3_after_a_share_partition_that_was_dropped_and_counts_again():
    """TOK-3: the same leader epoch, the same count, and no memory of the first delivery."""
    async with world() as w:
        told = await leading(w)
        _, first = await told.fetch("m1")
        w.runner(P0).fence(ErrorCode.UNKNOWN_SERVER_ERROR, "it broke")
        _, second = await told.fetch("m2")
        assert second[:2] == first[:2]
        assert second.delivery_count == first.delivery_count == 1


async def test_tok_3_after_a_change_of_leaders():
    async with world() as w:
        told = await leading(w)
        await told.fetch("m1")
        await w.lead(P0, epoch=9)
        _, token = await told.fetch("m2")
        assert token.leader_epoch == 9


def test_tok_3_a_process_that_numbers_from_1_again_has_a_higher_leader_epoch():
    last, first = RecordGrant(1, 7_000), RecordGrant(1, 1)
    assert fencing_token(first, 9, 1) > fencing_token(last, 8, 4)
    assert fencing_token(RecordGrant(2, 1), 9, 1) > fencing_token(last, 9, 4)  # an offset reset


async def test_tok_1_the_numbers_of_a_process_ascend_over_all_its_acquisitions():
    async with world() as w:
        m1 = await held(w)
        assert state(w, P0, 0) != (AVAILABLE, 0)
        await m1.acknowledge(ack(P0, 0, 4, RELEASE))
        part = parts(await m1.fetch())[P0]
        assert part.acquisition_number == 2
        assert part.state_epoch == w.runner(P0).machine.state_epoch == 1


def test_tok_2_texts_sort_as_tokens_do():
    values = SimpleNamespace(low=1, high=2**31 - 1)
    made = [
        fencing_token(RecordGrant(state_epoch, number), leader_epoch, count)
        for state_epoch in (1, 9, 10, values.high)
        for leader_epoch in (1, 16, values.high)
        for number in (1, 255, 2**62)
        for count in (1, 10)
    ]
    assert made == sorted(made)
    assert [str(each) for each in made] == sorted(str(each) for each in made)
    assert str(made[0]) == "00000001-00000001-0000000000000001-00000001"
