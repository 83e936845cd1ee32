"""Which quota binds whom is told in words, once for a spell; spells are bounded (QUO-15)."""

from sharemesh.domain.quota.names import EntityType, QuotaName
from sharemesh.domain.quota.sentences import SPELL_MS, Spells, in_words


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


def test_quo_15_the_words_name_a_group_as_a_group_and_the_command_that_raises_its_quota():
    of_group = next(each for each in QuotaName if each.entity_type is EntityType.GROUP)
    said = in_words(of_group, "orders", 5)
    assert said.startswith(f"quota {of_group.value} of group 'orders' is 5")
    assert f"sharemesh quotas alter --group orders --set {of_group.value}=" in said
