"""`python -m deploy.release`: says whether everything agrees on the version, and publishes it.

`check` compares the package, the charts, CHANGELOG, the released descriptors and, if one is named,
the tag. `publish` pushes what `make images BUILDER=docker`, `make charts` and `make wheel` built,
the wheel last: an index never takes a version back.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from deploy.charts import CHARTS
from images.__main__ import PRODUCTS

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"


def package_version(root: Path = ROOT) -> str:
    """Return the version of the Python package, which is the one that others have to agree with."""
    text = (root / "services" / "sharemesh" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert found, "services/sharemesh/__init__.py names no version"
    return found[1]


def disagreements(root: Path = ROOT, *, tag: str = "") -> Iterator[str]:
    """Return what is at odds with the package's version, a sentence each.

    A tag makes it a release: then CHANGELOG must date the version and have nothing unreleased.
    """
    version = package_version(root)
    for chart in CHARTS:
        about = yaml.safe_load((root / "charts" / chart / "Chart.yaml").read_text())
        for field in ("version", "appVersion"):
            if about[field] != version:
                yield f"charts/{chart}/Chart.yaml: {field} is {about[field]}, not {version}"
    headings = re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if not any(
        re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", each) for each in headings
    ):
        yield f"CHANGELOG.md: no heading `## {version} - YYYY-MM-DD`"
    if not (root / "protos" / "released" / f"{version}.bin").exists():
        yield (
            f"protos/released: no {version}.bin; run `python -m deploy.wire_changes"
            f" --release {version}`"
        )
    if tag:
        yield from _at_odds_with_tag(root, tag, version)


def _at_odds_with_tag(root: Path, tag: str, version: str) -> Iterator[str]:
    if tag != f"v{version}":
        yield f"the tag is {tag}, and the package's version {version} asks for v{version}"
    text = (root / "CHANGELOG.md").read_text()
    unreleased = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        yield f"CHANGELOG.md: entries below `## Unreleased` belong below `## {version}`"


def etcd_tag() -> str:
    """Return the tag under which the chart asks for etcd."""
    values = yaml.safe_load((ROOT / "charts" / "sharemesh" / "values.yaml").read_text())
    return str(values["etcd"]["inCluster"]["image"]["tag"])


def pushes(registry: str, version: str, build: Path = BUILD) -> list[list[str]]:
    """Return the commands that publish a version, in their order."""
    commands = []
    for image in PRODUCTS:
        built = f"{registry}/{image}:{version}"
        name = f"{registry}/etcd:{etcd_tag()}" if image == "etcd" else built
        if name != built:
            commands.append(["docker", "tag", built, name])
        commands.append(["docker", "push", name])
    for chart in CHARTS:
        archive = build / "charts" / f"{chart}-{version}.tgz"
        commands.append(["helm", "push", str(archive), f"oci://{registry}/charts"])
    uv = str(Path(sys.executable).with_name("uv"))
    commands.append([uv, "publish", str(wheel(version, build))])
    return commands


def wheel(version: str, build: Path = BUILD) -> Path:
    """Return where `make wheel` writes."""
    return build / "wheel" / f"sharemesh-{version}-py3-none-any.whl"


def missing(version: str, build: Path = BUILD) -> Iterator[str]:
    """Return what `publish` needs and has not, a sentence each."""
    for program in ("docker", "helm"):
        if shutil.which(program) is None:
            yield f"{program} is missing: install it"
    for chart in CHARTS:
        archive = build / "charts" / f"{chart}-{version}.tgz"
        if not archive.exists():
            yield f"{archive} is missing: run `make charts`"
    if not wheel(version, build).exists():
        yield f"{wheel(version, build)} is missing: run `make wheel`"


def main(arguments: list[str] | None = None, *, build: Path = BUILD) -> int:
    """Check or publish; exit 1 with one line for each thing that is wrong."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    parser.add_argument("action", choices=("check", "publish"))
    parser.add_argument("--tag", default="", help="the Git tag of the release, such as v0.2.0")
    parser.add_argument("--registry", default="", help="where images and charts go")
    args = parser.parse_args(arguments)
    version = package_version()
    wrong = list(disagreements(tag=args.tag))
    if args.action == "publish":
        wrong += [] if args.registry else ["name the registry: REGISTRY=ghcr.io/OWNER"]
        wrong += missing(version, build)
    for each in wrong:
        print(f"release: {each}", file=sys.stderr)
    if wrong:
        return 1
    if args.action == "check":
        print(f"everything agrees on version {version}")
        return 0
    for command in pushes(args.registry, version, build):
        print(" ".join(command), flush=True)
        subprocess.run(command, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
