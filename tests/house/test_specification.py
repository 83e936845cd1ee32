"""docs/spec defines each rule once; code, documentation and tests cite rules that exist."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.rule_links import linked

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
CITING = ("services", "operator", "spark", "protos", "tests", "docs", "charts")
SUFFIXES = (".py", ".proto", ".md", ".yaml", ".jsonl")

# A rule is a heading, or a list item in bold on the pages of rules beyond Kafka's.
DEFINITION = re.compile(r"^(?:### |- \*\*)([A-Z]{2,4}-\d+|T\d+)\b", re.MULTILINE)
CITATION = re.compile(r"(?<![A-Za-z0-9-])([A-Z]{2,4}-\d+)(?![\w-])")
STANDARDS = {"ISO-8601", "SHA-256", "UTF-8"}
OF_KAFKA = ("KAFKA-", "KIP-")  # its issues and proposals
SCENARIOS_OF_THE_OLD_DESIGN = re.compile(r"OLDX-\d+")

IN_THE_CORE = ("RS", "IFB", "INI", "OFF", "ACQ", "THR", "ISO", "ACK", "REL", "LK", "PER", "ROT")
IN_THE_CORE += ("CMB", "OLD")
NOT_IN_THE_PRODUCT = {
    "PER-12": "a persister for tests that keeps nothing: tests/conformance has one that keeps",
    "ROT-2": "examples of ROT-1, in the tests of sessions",
    "OLD-10": "a worked example: tests/conformance/test_p_worked_example.py",
}


def definitions() -> Iterator[tuple[str, str]]:
    for page in sorted(SPEC.glob("*.md")):
        for ident in DEFINITION.findall(page.read_text()):
            yield ident, page.name


def cited_in(*folders: str) -> dict[str, str]:
    """Return each cited id with one file that cites it."""
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and "node_modules" not in path.parts:
                for ident in CITATION.findall(path.read_text(errors="replace")):
                    found.setdefault(ident, str(path.relative_to(ROOT)))
    return found


@pytest.fixture(scope="module")
def defined() -> set[str]:
    return {ident for ident, _ in definitions()}


def test_each_rule_is_defined_once():
    twice = [ident for ident, count in Counter(i for i, _ in definitions()).items() if count > 1]
    assert not twice


def test_the_table_rows_of_the_transitions_are_rules_too(defined):
    assert {f"T{number}" for number in range(1, 17)} <= defined


@pytest.mark.parametrize("folder", CITING)
def test_every_rule_that_is_cited_is_defined(defined, folder):
    cited = cited_in(folder)
    unknown = {
        ident: where
        for ident, where in cited.items()
        if ident not in defined | STANDARDS
        and not SCENARIOS_OF_THE_OLD_DESIGN.fullmatch(ident)
        and not ident.startswith(OF_KAFKA)
    }
    assert not unknown


PLACES_OF_OLD = re.compile(
    r"\bDESIGN\b|\bspec (?:sections? )?\d|\bkubernetes\.md (?:item|section)|\bissue:? [A-Z]\w+[,)]"
)


@pytest.mark.parametrize("folder", CITING[:4])
def test_code_cites_rules_and_no_sections_of_pages(folder):
    found = [
        f"{path.relative_to(ROOT)}: {cited[0]}"
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in SUFFIXES
        for cited in [PLACES_OF_OLD.search(path.read_text())]
        if cited
    ]
    assert not found


def test_each_rule_of_the_core_is_found_in_the_product(defined):
    core = {ident for ident in defined if ident.split("-")[0] in IN_THE_CORE}
    text = "\n".join(path.read_text() for path in (ROOT / "services").rglob("*.py"))
    cited = set(re.findall(r"\b(?:T\d+|[A-Z]{2,3}-\d+)\b", text))
    assert core - cited == set(NOT_IN_THE_PRODUCT)


USER_PAGES = [
    page
    for folder in ("tutorial", "concepts", "guides", "reference", "runbooks")
    for page in sorted((ROOT / "docs" / folder).glob("*.md"))
]


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_user_page_links_the_rules_that_it_names(page):
    text = page.read_text()
    assert text == linked(text, page.relative_to(ROOT).as_posix())


def test_each_page_stands_in_the_index():
    index = (SPEC / "README.md").read_text()
    pages = {page.name for page in SPEC.glob("*.md")} - {"README.md"}
    assert pages == {name for name in pages if f"({name})" in index}


@pytest.mark.parametrize(
    ("text", "page", "with_links"),
    [
        ("# T\nas LK-6 says", "docs/a.md", "# T\nas [LK-6](spec/share-partition.md#lk-6) says"),
        ("of HBK-1.", "docs/guides/a.md", "of [HBK-1](../spec/hand-back.md)."),
        ("LK-1, LK-6", "docs/spec/share-partition.md", "[LK-1](#lk-1), [LK-6](#lk-6)"),
        ("`LK-6` [LK-6](x) UTF-8 KIP-932", "docs/a.md", "`LK-6` [LK-6](x) UTF-8 KIP-932"),
        ("### LK-6\n- **HBK-1** is", "docs/spec/a.md", "### LK-6\n- **HBK-1** is"),
    ],
)
def test_the_id_of_a_rule_becomes_a_link(text, page, with_links):
    assert linked(text, page) == with_links
