"""Who is slowed down is said once for a spell, and spells are bounded (QUO-15)."""

from sharemesh.domain.quota.sentences import SPELL_MS, Spells


def test_quo_15_a_spell_is_said_once_until_it_was_over_for_a_while():
    spells = Spells()
    assert spells.begins("jane", 0)
    assert not spells.begins("jane", SPELL_MS)
    assert spells.begins("jane", 2 * SPELL_MS + 1)


def test_quo_15_of_too_many_spells_the_oldest_is_forgotten():
    spells = Spells(spells_max=2)
    for number, name in enumerate(("jane", "joe", "jane", "jim")):
        spells.begins(name, number)
    assert len(spells) == 2
    assert not spells.begins("jane", 4), "it was the last but one"
    assert spells.begins("joe", 5)
