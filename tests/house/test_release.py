"""A release: everything agrees on its version, and its workflow calls what is here to be called."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from deploy import release
from deploy.charts import CHARTS

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
VERSION = release.package_version()
REGISTRY = "registry.example/team"


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))


def make_variables() -> set[str]:
    return set(re.findall(r"\$\((?:if |or )?\$?\(?([A-Z_]+)\)", (ROOT / "Makefile").read_text()))


def workflow_commands(path: Path) -> list[str]:
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    steps = [step for job in jobs for step in job["steps"]]
    return [line for step in steps for line in step.get("run", "").splitlines()]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_targets_of_the_makefile_and_nothing_else(path):
    commands = workflow_commands(path)
    assert commands
    for command in commands:
        program, target, *settings = command.split()
        assert program == "make", command
        assert target in make_targets(), f"{path.name}: there is no target {target}"
        unknown = {each.split("=")[0] for each in settings} - make_variables()
        assert not unknown, f"{path.name}: {command}: the Makefile reads no {unknown}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_a_limit_of_time_and_names_its_rights(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_everything_is_phony_that_the_help_names():
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == make_targets()


def test_the_release_checks_first_and_publishes_last():
    targets = [
        line.split()[1] for line in workflow_commands(ROOT / ".github/workflows/release.yml")
    ]
    assert targets[0] == "release-check"
    assert targets[-1] == "publish"
    assert {"gate", "images", "charts", "wheel"} <= set(targets)


def test_package_charts_changelog_and_descriptors_agree_on_the_version():
    assert list(release.disagreements()) == []


@pytest.fixture
def copy(tmp_path):
    """A copy of the files that name the version, whose CHANGELOG has nothing unreleased."""
    for name in ("services/sharemesh/__init__.py", f"protos/released/{VERSION}.bin"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    for chart in CHARTS:
        (tmp_path / "charts" / chart).mkdir(parents=True)
        shutil.copyfile(
            ROOT / "charts" / chart / "Chart.yaml", tmp_path / "charts" / chart / "Chart.yaml"
        )
    (tmp_path / "CHANGELOG.md").write_text(
        f"## Unreleased\n\n## {VERSION} - 2030-01-31\n\n- All.\n"
    )
    return tmp_path


def test_a_release_in_order_has_no_disagreement(copy):
    assert list(release.disagreements(copy, tag=f"v{VERSION}")) == []


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        (
            "charts/sharemesh/Chart.yaml",
            f"\nversion: {VERSION}",
            "\nversion: 9.9.9",
            "version is 9",
        ),
        ("charts/sharemesh-crds/Chart.yaml", f'"{VERSION}"', '"9.9.9"', "appVersion is 9.9.9"),
        ("CHANGELOG.md", " - 2030-01-31", "", "no heading"),
        ("CHANGELOG.md", "Unreleased\n", "Unreleased\n- More.\n", "below `## Unreleased`"),
        ("services/sharemesh/__init__.py", f'"{VERSION}"', '"9.9.9"', "the tag is"),
    ],
)
def test_what_is_at_odds_with_the_tag_is_named(copy, name, before, after, said):
    text = (copy / name).read_text()
    assert before in text
    (copy / name).write_text(text.replace(before, after))
    assert any(said in each for each in release.disagreements(copy, tag=f"v{VERSION}"))


def test_a_release_without_its_descriptors_is_refused(copy):
    (copy / "protos" / "released" / f"{VERSION}.bin").unlink()
    assert any("deploy.wire_changes" in each for each in release.disagreements(copy))


def test_a_tag_of_another_version_ends_the_release(capsys):
    assert release.main(["check", "--tag", "v9.9.9"]) == 1
    assert "the tag is v9.9.9" in capsys.readouterr().err


def test_nothing_is_pushed_before_all_is_built(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(release.subprocess, "run", lambda *_, **__: pytest.fail("pushed"))
    assert release.main(["publish", "--registry", REGISTRY], build=tmp_path) == 1
    said = capsys.readouterr().err
    assert "run `make charts`" in said
    assert "run `make wheel`" in said
    assert release.main(["publish"], build=tmp_path) == 1
    assert "REGISTRY=" in capsys.readouterr().err


@pytest.fixture
def built(tmp_path):
    """Archives as the make targets name them."""
    archives = [tmp_path / "charts" / f"{chart}-{VERSION}.tgz" for chart in CHARTS]
    for path in (*archives, release.wheel(VERSION, tmp_path)):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def test_all_that_is_built_is_pushed_once_and_the_wheel_last(built, monkeypatch):
    calls = []
    monkeypatch.setattr(release.subprocess, "run", lambda command, check: calls.append(command))
    monkeypatch.setattr(release.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert release.main(["publish", "--registry", REGISTRY], build=built) == 0
    words = [[Path(word).name for word in call[:2]] + call[2:] for call in calls]
    assert words[:4] == [
        ["docker", "push", f"{REGISTRY}/sharemesh:{VERSION}"],
        ["docker", "push", f"{REGISTRY}/sharemesh-spark:{VERSION}"],
        ["docker", "tag", f"{REGISTRY}/etcd:{VERSION}", f"{REGISTRY}/etcd:{release.etcd_tag()}"],
        ["docker", "push", f"{REGISTRY}/etcd:{release.etcd_tag()}"],
    ]
    assert [call[3] for call in words[4:7]] == [f"oci://{REGISTRY}/charts"] * len(CHARTS)
    assert words[7:] == [["uv", "publish", str(release.wheel(VERSION, built))]]
