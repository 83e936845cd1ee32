"""What is open is counted as it begins and ends, and who has nothing is not remembered (QUO-5)."""

from sharemesh.domain.quota.counts import OpenCounts


def test_quo_5_who_has_nothing_is_not_remembered():
    counts = OpenCounts()
    counts.add("User:jane", 2)
    counts.add("User:joe")
    assert (counts.of("User:jane"), counts.of("User:nobody"), len(counts)) == (2, 0, 2)
    counts.add("User:jane", -2)
    assert (counts.of("User:jane"), len(counts)) == (0, 1)
