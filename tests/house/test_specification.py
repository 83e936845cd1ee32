"""docs/spec defines each rule once; code, documentation and tests cite rules that exist."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.pages.rule_links import linked

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
CITING = ("services", "operator", "spark", "protos", "tests", "docs", "charts")
SUFFIXES = (".py", ".proto", ".md", ".yaml", ".jsonl")

DEFINITION = re.compile(r"^### ([A-Z]{2,4}-\d+|T\d+)\b", re.MULTILINE)
CITATION = re.compile(r"(?<![A-Za-z0-9-])([A-Z]{2,4}-\d+)(?![\w-])")
STANDARDS = {"ISO-8601", "SHA-256", "SHA-512", "UTF-8"}
OF_KAFKA = ("KAFKA-", "KIP-")  # its issues and proposals
SCENARIOS_OF_THE_OLD_DESIGN = re.compile(r"OLDX-\d+")

IN_THE_CORE = ("RS", "IFB", "INI", "OFF", "ACQ", "THR", "ISO", "ACK", "REL", "LK", "PER", "ROT")
IN_THE_CORE += ("CMB", "OLD")
NOT_IN_THE_PRODUCT = {
    "PER-12": "a persister for tests that keeps nothing: tests/conformance has one that keeps",
    "ROT-2": "examples of ROT-1, in the tests of sessions",
    "OLD-10": "a worked example: tests/conformance/test_worked_example.py",
}

NO_TEST_OF_ITS_OWN = {
    ("SRC", "VER", "XC"): "sources, versions and corrections of Kafka's pages, not behaviour",
    ("VOC",): "vocabulary, which the other rules use",
    ("OLD-5", "OLD-6", "OLD-7", "OLD-8"): "the log of the old design; only its records are read",
    ("INV-10", "INV-11", "RS-16", "T16"): "dead letters and key order are not in this version",
    ("WIRE-1", "WIRE-2", "WIRE-3", "GC-1"): "fields of Kafka's messages; lint compares the protos",
    ("ERR-1", "ERR-3"): "numbers that Kafka does not use, and its API keys, which gRPC has not",
    ("ERR-2",): "each of the errors has a test; no test has two of them in one partition",
    ("CL-7", "CL-8"): "unary fetches of Kafka's client; this one has a stream for each leader",
    ("CFG-10", "CFG-11", "CFG-12", "CFG-30"): "names and defaults, on the page that code makes",
    ("ASG-11", "ASG-12"): "what the assignor may do as it likes: order of members, racks",
    ("SC-3",): "settings of Kafka's internal topic; the state log is no topic here",
    ("IFB-7",): "Kafka's lock of a share partition; here a machine is called from one task",
    ("RS-15",): "the empty member id is no value of its own type",
    ("REQ-12", "PER-12", "DEL-3"): "not tested: bounds of bytes, a persister that keeps nothing, "
    "a topic deleted without its cluster",
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


RANGE = re.compile(r"(?<![A-Za-z0-9-])([A-Z]{2,4}-|T)(\d+)(?:\.\.| to (?:\1)?)(\d+)")
OF_A_NAME = re.compile(r"(?<=_)([a-z]{2,4}_\d+)(?=_|\()")


def named_in_tests() -> set[str]:
    """Return the rules that tests and scenarios name: in words, as a range, or in a test's name."""
    found: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix not in {".py", ".jsonl"} or "house" in path.parts:
            continue
        text = path.read_text()
        found.update(CITATION.findall(text), re.findall(r"\bT\d+\b", text))
        found.update(name.replace("_", "-").upper() for name in OF_A_NAME.findall(text))
        for family, first, last in RANGE.findall(text):
            found.update(f"{family}{number}" for number in range(int(first), int(last) + 1))
    return found


def test_each_rule_has_a_test_or_scenario_that_names_it(defined):
    excused = {name for names in NO_TEST_OF_ITS_OWN for name in names}
    families = {name for name in excused if "-" not in name}
    needing = {ident for ident in defined if ident.partition("-")[0] not in families}
    assert needing - named_in_tests() == excused - families


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
        ("of HBK-1.", "docs/guides/a.md", "of [HBK-1](../spec/hand-back.md#hbk-1)."),
        ("LK-1, LK-6", "docs/spec/share-partition.md", "[LK-1](#lk-1), [LK-6](#lk-6)"),
        ("`LK-6` [LK-6](x) UTF-8 KIP-932", "docs/a.md", "`LK-6` [LK-6](x) UTF-8 KIP-932"),
        ("### LK-6\n`HBK-1` is", "docs/spec/a.md", "### LK-6\n`HBK-1` is"),
    ],
)
def test_the_id_of_a_rule_becomes_a_link(text, page, with_links):
    assert linked(text, page) == with_links
