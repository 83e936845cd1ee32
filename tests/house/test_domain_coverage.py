"""The list of what no test of the domain reaches: each entry has a reason and a line."""

from tests.domain_coverage import DOMAIN, Miss, complaints, listed, misses
from tests.suite import PARTS


def test_each_entry_names_a_line_that_is_there_and_a_reason():
    known = listed()
    assert complaints({*known}, known) == []
    assert all(len(reason) > 20 for reason in known.values())


def test_a_line_and_a_way_that_no_test_takes_are_named(tmp_path):
    module = tmp_path / "rule.py"
    module.write_text("def rule(a):\n    if a:\n        return 1\n    return 2\n")
    file = {"missing_lines": [3], "missing_branches": [[2, 3]]}
    found = misses({"files": {str(module): file}}, tmp_path.resolve())
    assert found == {Miss("rule", "if a:"), Miss("rule", "return 1")}
    assert len(complaints(found, {}, tmp_path)) == 2
    assert complaints(found, dict.fromkeys(found, "why"), tmp_path) == []
    gone = {Miss("rule", "return 3"): "why", Miss("other", "return 1"): "why"}
    assert len(complaints(set(), gone, tmp_path)) == 2


def test_the_suite_measures_before_it_judges():
    names = [part.name for part in PARTS]
    measured = [part.name for part in PARTS if part.covered]
    assert measured == ["domain", "conformance"]
    assert max(map(names.index, measured)) < names.index("coverage of the domain")
    assert DOMAIN.is_dir()
