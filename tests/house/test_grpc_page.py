"""The gRPC reference says what the protos say, and everything in the protos has a comment."""

import re

import pytest

from deploy.descriptors import compiled, elements_of
from deploy.pages.grpc import PAGE, page
from sharemesh.methods import METHODS


@pytest.fixture(scope="module")
def elements():
    return [each for file in compiled(comments=True).file for each in elements_of(file)]


def test_everything_in_the_protos_has_a_comment(elements):
    kinds = {each.kind for each in elements}
    assert kinds >= {"file", "service", "method", "message", "field", "oneof", "enum", "enum value"}
    assert [f"{each.kind} {each.name}" for each in elements if not each.comment] == []


def test_each_kind_of_thing_without_a_comment_is_found(tmp_path):
    (tmp_path / "bare.proto").write_text(
        """
        syntax = "proto3";
        service Bare { rpc Ask(Words) returns (Words); }
        message Words {
          message Inner { optional int32 size = 1; }
          enum Kind { KIND_NONE = 0; }
          oneof one { string said = 1; }
          // Not bare.
          map<string, string> more = 2;
        }
        """
    )
    [file] = compiled(tmp_path, comments=True).file
    assert [(each.kind, each.name) for each in elements_of(file) if not each.comment] == [
        ("file", "bare.proto"),
        ("service", "Bare"),
        ("method", "Bare.Ask"),
        ("message", "Words"),
        ("field", "Words.said"),
        ("oneof", "Words.one"),
        ("message", "Words.Inner"),
        ("field", "Words.Inner.size"),
        ("enum", "Words.Kind"),
        ("enum value", "Words.Kind.KIND_NONE"),
    ]


def test_a_comment_is_sentences(elements):
    unfinished = [
        f"{each.kind} {each.name}"
        for each in elements
        if not re.match(r"[A-Z0-9`-]", each.comment) or each.comment[-1] not in ".;)"
    ]
    assert unfinished == []


def test_every_method_says_what_the_table_of_methods_says_of_repeating_it(elements):
    comments = {each.name: each.comment for each in elements if each.kind == "method"}
    assert comments.keys() == {each.name.replace("/", ".") for each in METHODS}
    told = {name: "Not idempotent" not in comment for name, comment in comments.items()}
    assert told == {each.name.replace("/", "."): each.idempotent for each in METHODS}
    assert [name for name, comment in comments.items() if "dempotent" not in comment] == []


def test_every_method_says_which_right_it_needs(elements):
    silent = [e.name for e in elements if e.kind == "method" and "\nNeeds " not in e.comment]
    assert silent == []


def test_a_link_inside_the_page_leads_to_one_heading():
    text = page()
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    anchors = [re.sub(r"[^\w\- ]", "", each).lower().replace(" ", "-") for each in headings]
    wanted = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert {each for each in wanted if anchors.count(each) != 1} == set()


def test_a_link_to_another_page_leads_to_a_heading_of_it():
    text = page()
    missing = []
    for name, anchor in set(re.findall(r"\]\((\.\./[\w./-]+)(?:#([\w-]+))?\)", text)):
        target = PAGE.parent / name
        found = target.read_text(encoding="utf-8") if target.is_file() else None
        headings = re.findall(r"^#+ (.+)$", found or "", re.MULTILINE)
        if found is None or (anchor and anchor not in {each.lower() for each in headings}):
            missing.append((name, anchor))
    assert missing == []
