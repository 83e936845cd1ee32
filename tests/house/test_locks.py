"""Everything that is installed comes by a lock file, which covers what pyproject.toml asks for."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import images.__main__ as image_builder
from deploy.lock import ALL, LOCKS, Lock

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]["name"]
INSTALLERS = [
    ROOT / "Makefile",
    *sorted((ROOT / "images").glob("*ockerfile")),
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Pin:
    """One package of a lock file."""

    requirement: Requirement
    hashes: int
    asked_by: tuple[str, ...]

    @property
    def version(self) -> str:
        (specifier,) = self.requirement.specifier
        assert specifier.operator == "=="
        return specifier.version


def pins(text: str) -> dict[str, Pin]:
    """Read a lock file; a line of any other kind is an error."""
    found: dict[str, Pin] = {}
    for block in re.split(r"\n(?=\S)", re.sub(r"\A(#.*\n)+", "", text).rstrip()):
        first, *rest = block.splitlines()
        name_and_version = first.removesuffix("\\").strip()
        requirement = Requirement(name_and_version)
        hashes = [line for line in rest if HASH.fullmatch(line.strip(" \\"))]
        comments = [line.strip(" #") for line in rest if line.strip().startswith("#")]
        assert len(hashes) + len(comments) == len(rest), f"not a pin with hashes: {block}"
        asked_by = tuple(c.removeprefix("via").strip() for c in comments if c != "via")
        found[canonicalize_name(requirement.name)] = Pin(requirement, len(hashes), asked_by)
    return found


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group and of those that it includes."""
    entries = PYPROJECT["dependency-groups"][name]
    return [
        requirement
        for entry in entries
        for requirement in (group(entry["include-group"]) if isinstance(entry, dict) else [entry])
    ]


def extra(name: str) -> list[str]:
    """Return the requirements of an extra and of the project's extras that it names."""
    found = []
    for text in PYPROJECT["project"]["optional-dependencies"][name]:
        asked = Requirement(text)
        own = asked.name == PROJECT
        found += (
            [each for inner in sorted(asked.extras) for each in extra(inner)] if own else [text]
        )
    return found


def declared(lock: Lock) -> list[Requirement]:
    """Return what pyproject.toml asks for in the name of a lock file."""
    texts = list(PYPROJECT["project"]["dependencies"]) if lock.base else []
    texts += [each for name in lock.extras for each in extra(name)]
    texts += [each for name in lock.groups for each in group(name)]
    return [Requirement(text) for text in texts]


each_lock = pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)


@each_lock
def test_a_lock_file_covers_what_pyproject_asks_for(lock):
    found = pins(lock.path.read_text())
    problems = [
        f"{asked}: {pin.version if pin else 'not there'}"
        for asked in declared(lock)
        for pin in [found.get(canonicalize_name(asked.name))]
        if pin is None or not asked.specifier.contains(pin.version, prereleases=True)
    ]
    assert not problems, f"run `make lock`: {problems}"


@each_lock
def test_a_lock_file_holds_nothing_that_nobody_asks_for(lock):
    found = pins(lock.path.read_text())
    asked = {canonicalize_name(each.name) for each in declared(lock)}
    ours = {
        name
        for name, pin in found.items()
        if any(by.startswith(f"{PROJECT} (") for by in pin.asked_by)
    }
    assert ours <= asked, f"run `make lock`: {ours - asked}"
    reasons = {name: [by.split(" ")[0] for by in pin.asked_by] for name, pin in found.items()}
    orphans = [name for name, by in reasons.items() if not {PROJECT, *found} & set(by)]
    assert not orphans, f"run `make lock`: {orphans}"


@each_lock
def test_each_package_is_pinned_with_hashes_and_the_file_names_no_index(lock):
    text = lock.path.read_text()
    assert all(pin.hashes for pin in pins(text).values())
    assert "://" not in text
    assert "index-url" not in text


@each_lock
def test_images_and_set_up_install_the_same_versions(lock):
    everything = pins(ALL.path.read_text())
    differing = [
        f"{name}: {pin.version}, and {everything[name].version} in {ALL.path.name}"
        for name, pin in pins(lock.path.read_text()).items()
        if name in everything and pin.version != everything[name].version
    ]
    assert not differing, f"run `make lock`: {differing}"


def test_the_lock_of_the_build_covers_the_build_system():
    found = pins((ROOT / "requirements" / "build.lock").read_text())
    for asked in map(Requirement, PYPROJECT["build-system"]["requires"]):
        assert asked.specifier.contains(found[canonicalize_name(asked.name)].version)


def test_each_lock_file_has_its_entry():
    assert sorted((ROOT / "requirements").iterdir()) == sorted(lock.path for lock in LOCKS)


@pytest.mark.parametrize("path", INSTALLERS, ids=lambda path: path.name)
def test_what_is_installed_comes_by_a_lock_file(path):
    text = path.read_text().replace("\\\n", " ")
    commands = [
        part
        for line in text.splitlines()
        if not line.lstrip().startswith(("#", "PIP_INSTALL :="))
        for part in re.split(r"&&|\|\||;", line)
        if re.search(r"\bpip3? install\b|\$\(PIP_INSTALL\)", part)
    ]
    for command in commands:
        own = (
            "--no-deps" in command
            and command.split("--no-build-isolation")[-1].strip(" >&2") == "-e ."
        )
        locked = re.search(r"--require-hashes .*-r \S*\.lock\b", command)
        assert own or locked, f"{path.name} installs what no lock file pins: {command.strip()}"


@pytest.mark.parametrize("image", ["sharemesh", "sharemesh-spark"])
def test_the_packages_of_an_image_come_by_its_lock_file(image, tmp_path, monkeypatch):
    calls = []

    def run(command, *, check):
        assert check
        calls.append(command)

    monkeypatch.setattr(image_builder, "LAYERS", tmp_path)
    monkeypatch.setattr(image_builder.subprocess, "run", run)
    monkeypatch.setattr(image_builder, "compile_tree", lambda tree, place: tree.mkdir())
    image_builder.packages_layer("/opt/site", image)
    (command,) = calls
    assert command[-4:-1] == ["--require-hashes", "--no-build-isolation", "-r"]
    assert command[-1] == str(ROOT / "requirements" / f"{image}.lock")


def test_a_line_without_hash_is_found():
    with pytest.raises(AssertionError, match="not a pin"):
        pins("attrs==26.1.0 \\\n    --index-url=x\n")
    assert pins("attrs==26.1.0\n    # via pytest\n")["attrs"].hashes == 0
