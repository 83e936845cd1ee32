"""Session deadlines in one structure (spec GC-21)."""

import random

from sharemesh.domain.ids import GroupId, MemberId
from sharemesh.domain.share_group.deadlines import SessionDeadlines

G = GroupId("g")
M1, M2 = MemberId("m1"), MemberId("m2")


def test_members_are_due_once_at_their_moment():
    deadlines = SessionDeadlines()
    deadlines.restart(G, M1, 100)
    deadlines.restart(G, M2, 200)
    assert deadlines.take_due(99) == []
    assert deadlines.take_due(100) == [(G, M1)]
    assert deadlines.take_due(300) == [(G, M2)]
    assert deadlines.take_due(1_000) == []
    assert len(deadlines) == 0


def test_a_restart_moves_the_moment_either_way():
    deadlines = SessionDeadlines()
    deadlines.restart(G, M1, 100)
    deadlines.restart(G, M1, 500)
    assert deadlines.take_due(499) == []
    deadlines.restart(G, M1, 510)
    deadlines.restart(G, M1, 505)
    assert deadlines.take_due(505) == [(G, M1)]


def test_shorten_never_prolongs_and_never_watches_anew():
    deadlines = SessionDeadlines()
    deadlines.shorten(G, M1, 50)
    assert deadlines.deadline_ms(G, M1) is None
    deadlines.restart(G, M1, 100)
    deadlines.shorten(G, M1, 150)
    assert deadlines.deadline_ms(G, M1) == 100
    deadlines.shorten(G, M1, 20)
    assert deadlines.take_due(20) == [(G, M1)]


def test_forgotten_members_are_never_due():
    deadlines = SessionDeadlines()
    deadlines.restart(G, M1, 100)
    deadlines.forget(G, M1)
    deadlines.forget(G, M1)
    assert deadlines.take_due(1_000) == []


def test_agrees_with_a_table_over_random_steps():
    seed = 20_260
    chance = random.Random(seed)
    deadlines, table, now = SessionDeadlines(), {}, 0
    for _ in range(5_000):
        member = MemberId(f"m{chance.randrange(20)}")
        step = chance.randrange(4)
        if step == 0:
            table[member] = now + chance.randint(1, 50)
            deadlines.restart(G, member, table[member])
        elif step == 1:
            moment = now + chance.randint(1, 20)
            if member in table:
                table[member] = min(table[member], moment)
            deadlines.shorten(G, member, moment)
        elif step == 2:
            table.pop(member, None)
            deadlines.forget(G, member)
        else:
            now += chance.randint(0, 10)
            due = {each for each, moment in table.items() if moment <= now}
            assert {each for _, each in deadlines.take_due(now)} == due, f"seed {seed}"
            for each in due:
                del table[each]
        upcoming = deadlines.next_ms()
        assert not table or (upcoming is not None and upcoming <= min(table.values())), f"{seed}"
