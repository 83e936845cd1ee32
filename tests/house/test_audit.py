"""`make audit`: what it finds, with and without pip-audit's data."""

import datetime
import json
import sys
import tomllib

import pytest
from packaging.specifiers import SpecifierSet

from deploy import audit
from deploy.audit import Finding, NoDataError, asked, left, listed, pins

BAD = [{"package": "a", "versions": ">=1,<2", "id": "CVE-2026-1", "why": "words"}]
TODAY = datetime.date(2026, 11, 23)


def test_no_pinned_version_is_on_the_list_and_the_list_is_about_packages_that_are_used() -> None:
    tree = tomllib.loads(audit.KNOWN_BAD.read_text())
    pinned = pins()
    assert not left(listed(pinned, tree["bad"]), tree.get("accepted", ()), TODAY)
    for each in tree["bad"]:
        assert each["package"] in pinned, each
        assert SpecifierSet(each["versions"])
        assert each["id"].startswith("CVE-")
        assert each["why"]


def test_a_version_in_the_range_is_found_and_another_is_not() -> None:
    found = listed({"a": {"1.5", "2.0"}, "b": {"1.5"}}, BAD)
    assert found == {Finding("a", "1.5", "CVE-2026-1", "words")}


def test_what_was_accepted_comes_back_on_its_day() -> None:
    found = {Finding("a", "1.5", "CVE-2026-1")}
    accepted = [{"package": "a", "id": "CVE-2026-1", "until": TODAY}]
    assert left(found, accepted, TODAY - datetime.timedelta(days=1)) == []
    assert left(found, accepted, TODAY) == sorted(found)


@pytest.fixture
def program(tmp_path):
    """A function that makes a program that answers as pip-audit would."""

    def make(answer: str, words: str = ""):
        path = tmp_path / "pip-audit"
        path.write_text(
            f"#!{sys.executable}\nimport sys\n"
            f"print({answer!r})\nprint({words!r}, file=sys.stderr)\n"
        )
        path.chmod(0o755)
        return path

    return make


def test_what_pip_audit_says_is_told_with_its_cve(program, tmp_path) -> None:
    vulnerability = {"id": "PYSEC-1", "aliases": ["GHSA-x", "CVE-2026-2"], "description": "words"}
    tree = {"dependencies": [{"name": "A", "version": "1", "vulns": [vulnerability]}, {"name": "b",
            "version": "2", "vulns": []}]}  # fmt: skip
    found = asked(program(json.dumps(tree)), {"a": {"1", "3"}, "b": {"2"}}, tmp_path / "scratch")
    assert found == {Finding("a", "1", "CVE-2026-2", "words")}
    assert (tmp_path / "scratch/audited-0.txt").read_text() == "a==1\nb==2\n"
    assert (tmp_path / "scratch/audited-1.txt").read_text() == "a==3\n", "one version at a time"


def test_without_its_data_the_list_alone_counts_and_that_is_said(program, tmp_path, capsys) -> None:
    silent = program("", "ConnectionError: cannot reach pypi.org")
    with pytest.raises(NoDataError, match=r"has no data: ConnectionError: cannot reach pypi\.org"):
        asked(silent, {"a": {"1"}}, tmp_path)
    with pytest.raises(NoDataError, match="did not run"):
        asked(tmp_path / "gone", {"a": {"1"}}, tmp_path)
    assert audit.main(["--pip-audit", str(silent)]) == 0
    told = capsys.readouterr()
    assert "only deploy/known_bad.toml was checked" in told.err
    assert "0 with known vulnerabilities, by the list of known-bad versions alone" in told.out


def test_a_finding_fails_the_command(monkeypatch, capsys) -> None:
    monkeypatch.setattr(audit, "pins", lambda: {"jinja2": {"3.0"}})
    assert audit.main([]) == 1
    assert "jinja2 3.0: CVE-2025-27516" in capsys.readouterr().out
