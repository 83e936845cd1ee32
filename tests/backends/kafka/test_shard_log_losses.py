"""A shard log that lost its end is not served before somebody gives up what is missing."""

import logging

import pytest

from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.losses import accept_loss
from sharemesh.cluster.store.seen_records import decode_seen, encode_damage
from sharemesh.domain.errors import RefusedError
from sharemesh.domain.stamped_log.seen import LostUnits, SeenUnits, accepted, merged
from sharemesh.ports.coordination import Put
from sharemesh.ports.shard_log import CorruptLogError, LogFailedError, LossFoundError
from tests.backends.kafka.shard_log_bench import Bench, keys_of, put

KEYS = Keys("mesh")
WHAT_IS_LOST = "3 units up to offset 4 were confirmed, and 1 were left"


@pytest.fixture
def bench() -> Bench:
    return Bench()


def seen(bench: Bench) -> SeenUnits:
    stored = bench.store.get(KEYS.seen_log("state-0"))
    return decode_seen(stored.value)


async def three_units(bench: Bench):
    log = await bench.open(1)
    for key in "abc":
        await put(bench, log, key)
    return log


def cut(bench: Bench, kept: int = 2) -> None:
    """Lose the end of the log: the fence of epoch 1 and one unit stay."""
    del bench.brokers.log().batches[kept:]


async def test_stl_24_what_is_confirmed_is_remembered_within_a_second(bench):
    log = await three_units(bench)
    assert (seen(bench).units, seen(bench).base) == (0, 0)
    await bench.clock.advance(1_000)
    assert (seen(bench).epoch, seen(bench).units, seen(bench).end) == (1, 3, 4)
    revision = bench.store.get(KEYS.seen_log("state-0")).mod_revision
    for _ in range(5):
        await bench.clock.advance(1_000)
    assert bench.store.get(KEYS.seen_log("state-0")).mod_revision == revision, "idle: no writes"
    await log.close()


async def test_stl_24_a_log_that_is_given_up_is_remembered_at_once(bench):
    log = await three_units(bench)
    await bench.run(log.close())
    assert seen(bench).units == 3


async def test_stl_25_a_take_over_that_finds_less_than_was_confirmed_is_refused(bench):
    log = await three_units(bench)
    await bench.run(log.close())
    cut(bench)
    with pytest.raises(LossFoundError, match=WHAT_IS_LOST) as error:
        await bench.open(2, bench.other_process(2))
    assert "topic state partition 0: Kafka lost records of shard state-0" in str(error.value)
    assert "sharemesh shards accept-loss state-0" in str(error.value)


async def test_stl_26_fences_that_fill_the_place_of_what_was_lost_change_nothing(bench):
    log = await three_units(bench)
    await bench.run(log.close())
    cut(bench)
    for epoch in (2, 3, 4, 5):
        with pytest.raises(CorruptLogError, match=WHAT_IS_LOST):
            await bench.open(epoch, bench.other_process(epoch))
    epochs = [each.stamp.epoch for each in bench.stamps()]
    assert epochs == [1, 1, 2], "after the first refusal nothing more is written"


async def test_stl_24_an_owner_whose_write_shows_the_loss_leaves_it_to_its_successor(bench):
    log = await three_units(bench)
    cut(bench)
    with pytest.raises(CorruptLogError, match="records of the log were lost"):
        await put(bench, log, "d")
    with pytest.raises(CorruptLogError, match=WHAT_IS_LOST):
        await bench.open(2, bench.other_process(2))


async def test_stl_27_once_the_loss_is_accepted_the_shard_is_served_from_what_is_left(bench):
    log = await three_units(bench)
    await bench.run(log.close())
    cut(bench)
    with pytest.raises(CorruptLogError):
        await bench.open(2, bench.other_process(2))
    loss = await accept_loss(bench.logs.coordination, "mesh", "state-0")
    assert (loss.confirmed, loss.found) == (3, 1)
    again = await bench.open(3, bench.other_process(3))
    assert await keys_of(bench, again) == [b"a"]
    await put(bench, again, "e")
    await bench.run(again.close())
    assert (seen(bench).units, seen(bench).accepted, seen(bench).loss) == (2, 1, None)
    cut(bench, 1)
    with pytest.raises(CorruptLogError, match="2 units up to offset"):  # a further one is told too
        await bench.open(4, bench.other_process(4))


async def test_stl_27_only_a_loss_that_was_found_can_be_accepted(bench):
    await bench.run((await three_units(bench)).close())
    for name in ("state-0", "state-9", "nothing"):
        with pytest.raises(RefusedError, match="no loss"):
            await accept_loss(bench.logs.coordination, "mesh", name)
    assert seen(bench).accepted == 0


async def test_stl_30_damage_cannot_be_accepted_and_the_answer_says_why(bench):
    await bench.run((await three_units(bench)).close())
    why = "topic state partition 0: offset 2 is gone; restore it"
    bench.store.commit([], [Put(KEYS.damaged_log("state-0"), encode_damage(why))], 0)
    with pytest.raises(RefusedError, match=f"is no lost end, and cannot be given up: {why}"):
        await accept_loss(bench.logs.coordination, "mesh", "state-0")


async def test_stl_30_a_gap_is_refused_in_words_that_say_what_to_do(bench):
    log = await three_units(bench)
    await bench.run(log.close())
    del bench.brokers.log().batches[2]  # compaction took it
    with pytest.raises(CorruptLogError, match="begins at offset 3 where 2 was expected") as error:
        await bench.open(2, bench.other_process(2))
    assert "restore the topic with its id, or begin with another cluster_id" in str(error.value)
    assert not isinstance(error.value, LossFoundError)


async def test_stl_26_an_owner_hears_that_one_before_it_had_confirmed_more(bench):
    first = bench.logs
    log = await bench.open(1)
    await put(bench, log, "a")
    await bench.clock.advance(1_000)
    first.coordination.cut_off = True  # what it confirms from now on is not remembered yet
    await put(bench, log, "b")
    await put(bench, log, "c")
    cut(bench)
    successor = await bench.open(2, bench.other_process(2))
    await put(bench, successor, "x")
    first.coordination.cut_off = False
    for _ in range(4):
        await bench.clock.advance(1_000)
    with pytest.raises(CorruptLogError, match=WHAT_IS_LOST):
        await put(bench, successor, "y")


async def test_stl_25_nothing_is_served_while_the_store_does_not_answer(bench):
    bench.logs.coordination.cut_off = True
    with pytest.raises(LogFailedError, match="does not say how far its log was confirmed"):
        await bench.open(1)
    assert bench.brokers.produced == []


async def test_stl_24_a_store_that_does_not_answer_is_said_once_and_written_later(bench, caplog):
    log = await bench.open(1)
    bench.logs.coordination.cut_off = True
    with caplog.at_level(logging.WARNING):
        await put(bench, log, "a")
        for _ in range(5):
            await bench.clock.advance(1_000)
    assert sum("not remembered now" in each.message for each in caplog.records) == 1
    bench.logs.coordination.cut_off = False
    await bench.clock.advance(1_000)
    assert seen(bench).units == 1


def owner(epoch: int, base: int, units: int, **more: object) -> SeenUnits:
    return SeenUnits(epoch, base, base, units, units, **more)


def test_stl_26_what_owners_tell_is_merged_in_any_order():
    old, new = owner(1, 0, 5), owner(2, 5, 9)
    assert merged(merged(None, old), new) == merged(merged(None, new), old) == new
    late = owner(1, 0, 7)
    lost = LostUnits(7, 7, 5, 5)
    assert merged(merged(None, late), new).loss == lost
    assert merged(merged(None, new), late).loss == lost


def test_stl_26_within_an_epoch_what_is_known_only_grows():
    assert merged(owner(1, 0, 5), owner(1, 0, 4)) == owner(1, 0, 5)
    assert merged(owner(1, 0, 5), owner(1, 0, 6)) == owner(1, 0, 6)


def test_stl_26_while_a_loss_is_known_an_owner_of_before_may_only_make_it_larger():
    found = merged(owner(1, 0, 5), owner(3, 3, 3))
    assert found.loss == LostUnits(5, 5, 3, 3)
    assert merged(found, owner(2, 0, 6)).loss == LostUnits(6, 6, 3, 3)
    assert merged(found, owner(2, 0, 4)) == found
    assert merged(found, owner(3, 3, 9)) == found


def test_stl_27_what_owners_of_before_an_accepted_loss_tell_is_passed_over():
    found = merged(owner(1, 0, 5), owner(2, 3, 3))
    given_up = accepted(found)
    assert (given_up.units, given_up.accepted, given_up.loss) == (3, 1, None)
    assert merged(given_up, owner(1, 0, 8)) == given_up
    assert accepted(given_up) == given_up
