"""What a release publishes, as the make targets build it: charts of a registry, and the wheel."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy import charts, release
from deploy.charts import CHARTS

ROOT = Path(__file__).parents[2]
VERSION = release.package_version()
REGISTRY = "registry.example/team"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    build = tmp_path_factory.mktemp("build")
    for module, *words in (
        ("deploy.charts", "--registry", REGISTRY, "--out", str(build / "charts")),
        ("hatchling", "build", "--target", "wheel", "--directory", str(build / "wheel")),
    ):
        command = [sys.executable, "-m", module, *words]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return build


def test_publish_finds_all_that_the_targets_build(built, monkeypatch):
    monkeypatch.setattr(release.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert list(release.missing(VERSION, built)) == []


@pytest.mark.parametrize("chart", CHARTS)
def test_a_published_chart_asks_for_published_images(built, chart):
    with tarfile.open(built / "charts" / f"{chart}-{VERSION}.tgz") as archive:
        texts = [
            opened.read().decode()
            for member in archive
            if member.isfile() and (opened := archive.extractfile(member)) is not None
        ]
    assert not any(f"{charts.LOCAL}/" in text for text in texts)
    if chart != "sharemesh-crds":
        assert any(f"{REGISTRY}/sharemesh" in text for text in texts)


def test_the_wheel_has_the_three_packages_and_no_tests(built):
    with zipfile.ZipFile(release.wheel(VERSION, built)) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
    expected = {
        "sharemesh",
        "sharemesh_operator",
        "sharemesh_spark",
        f"sharemesh-{VERSION}.dist-info",
    }
    assert tops == expected
