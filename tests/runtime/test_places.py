"""Places for dear work: bounded for all and for one principal, given in turn (EXP-11)."""

import asyncio

import pytest

from sharemesh.places import SharedPlaces


async def turns(count=10):
    for _ in range(count):
        await asyncio.sleep(0)


async def taken(places, principal, done):
    await places.take(principal)
    done.append(principal)


async def test_one_principal_has_its_part_and_others_have_what_is_left():
    places, done = SharedPlaces(3, 2), []
    tasks = [asyncio.create_task(taken(places, who, done)) for who in "aaabb"]
    await turns()
    assert done == ["a", "a", "b"]
    places.give_back("b")
    await turns()
    assert done == ["a", "a", "b", "b"], "the place is not for one that has its part"
    places.give_back("a")
    await asyncio.gather(*tasks)
    assert (done[-1], places.taken) == ("a", 3)


async def test_a_free_place_goes_round_the_principals_however_many_pieces_one_has():
    places, done = SharedPlaces(1, 1), []
    await places.take("x")
    tasks = [asyncio.create_task(taken(places, who, done)) for who in "aaaabc"]
    await turns()
    for who in "xabca":
        places.give_back(who)
        await turns()
    assert done == ["a", "b", "c", "a", "a"]
    places.give_back("a")
    await asyncio.gather(*tasks)
    places.give_back("a")
    assert places.taken == 0


async def test_of_one_principal_the_newest_comes_first_where_that_is_asked_for():
    places, done = SharedPlaces(1, newest_first=True), []

    async def named(principal, name):
        async with places.place(principal):
            done.append(name)

    await places.take("x")
    tasks = [asyncio.create_task(named(name[0], name)) for name in ("a1", "a2", "a3", "b1")]
    await turns()
    tasks[2].cancel()
    places.give_back("x")
    await asyncio.gather(*tasks, return_exceptions=True)
    assert done == ["a2", "b1", "a1"]


async def test_a_place_goes_past_one_that_was_given_up_in_the_same_turn_of_the_loop():
    places, done = SharedPlaces(1, 1), []
    await places.take("x")
    gone, next_one = (asyncio.create_task(taken(places, who, done)) for who in "aa")
    await turns()
    gone.cancel()
    places.give_back("x")
    await next_one
    assert (done, places.taken) == (["a"], 1)


@pytest.mark.parametrize("is_given", [False, True])
async def test_a_wait_that_is_given_up_takes_no_place(is_given):
    places, done = SharedPlaces(1, 1), []
    await places.take("x")
    task = asyncio.create_task(taken(places, "a", done))
    await turns()
    if is_given:
        places.give_back("x")  # in the same turn of the loop
    task.cancel()
    await turns()
    assert task.cancelled()
    if not is_given:
        places.give_back("x")
    async with places.place("b"):
        assert places.taken == 1
    assert (places.taken, done) == (0, [])


async def test_the_first_piece_of_another_is_the_next_behind_300_of_one_principal():
    places, done = SharedPlaces(1), []
    await places.take("a")
    many = [asyncio.create_task(taken(places, "a", done)) for _ in range(300)]
    await turns()
    one = asyncio.create_task(taken(places, "b", done))
    await turns()
    places.give_back("a")
    await one
    assert done == ["b"]
    places.give_back("b")
    for _ in many:
        await turns(2)
        places.give_back("a")
    await asyncio.gather(*many)
    assert (done, places.taken) == (["b", *"a" * 300], 0)


async def test_a_principal_may_have_all_places_and_gives_one_to_each_that_comes():
    places, done = SharedPlaces(3), []
    many = [asyncio.create_task(taken(places, "a", done)) for _ in range(9)]
    await turns()
    assert done == ["a"] * 3
    others = [asyncio.create_task(taken(places, who, done)) for who in "bc"]
    await turns()
    places.give_back("a")
    places.give_back("a")
    await asyncio.gather(*others)
    assert done == [*"aaabc"]
    for who in "abcaaaaa":
        places.give_back(who)
        await turns()
    await asyncio.gather(*many)
    assert len(done) == 11


async def test_nothing_is_kept_of_a_principal_that_neither_waits_nor_has_a_place():
    places, done = SharedPlaces(1), []
    await places.take("a")
    waiting = [asyncio.create_task(taken(places, f"p{at}", done)) for at in range(20)]
    await turns()
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)
    places.give_back("a")
    assert (done, len(places._waiting), len(places._taken)) == ([], 0, 0)
