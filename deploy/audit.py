"""`python -m deploy.audit`: are there known vulnerabilities in what the lock files pin?

pip-audit knows the newest, where it is installed and reaches its data; the list in
`deploy/known_bad.toml` is checked in any case. What is found ends the command with 1.
"""

import argparse
import datetime
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "requirements"
KNOWN_BAD = ROOT / "deploy" / "known_bad.toml"
TIMEOUT_S = 600
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A pinned version with a vulnerability."""

    package: str
    version: str
    id: str
    why: str = ""


class NoDataError(Exception):
    """pip-audit is not there or did not reach its data; the message says which."""


def pins(folder: Path = LOCKS) -> dict[str, set[str]]:
    """Return the versions that the lock files pin, by package."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.lock")):
        for name, version in _PIN.findall(path.read_text()):
            found.setdefault(name.lower(), set()).add(version)
    return found


def listed(pinned: Mapping[str, Iterable[str]], bad: Iterable[Mapping[str, Any]]) -> set[Finding]:
    """Return what the pinned list says of the pinned versions."""
    return {
        Finding(each["package"], version, each["id"], each["why"])
        for each in bad
        for version in pinned.get(each["package"], ())
        if Version(version) in SpecifierSet(each["versions"], prereleases=True)
    }


def asked(program: Path, pinned: Mapping[str, Iterable[str]], scratch: Path) -> set[Finding]:
    """Return what pip-audit says of them.

    Raises:
        NoDataError: It said nothing.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    found: set[Finding] = set()
    for number, versions in enumerate(_rounds(pinned)):
        file = scratch / f"audited-{number}.txt"
        file.write_text("".join(f"{name}=={version}\n" for name, version in versions))
        found |= _audited([str(program), "--no-deps", "--disable-pip", "-r", str(file)])
    return found


def _rounds(pinned: Mapping[str, Iterable[str]]) -> list[list[tuple[str, str]]]:
    """Return all pins so that no list has two versions of one package."""
    rounds: list[list[tuple[str, str]]] = []
    for name, versions in sorted(pinned.items()):
        for number, version in enumerate(sorted(versions)):
            if number == len(rounds):
                rounds.append([])
            rounds[number].append((name, version))
    return rounds


def _audited(command: list[str]) -> set[Finding]:
    full = [*command, "--format", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(full, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        tree = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoDataError(f"{command[0]} did not run: {error}") from error
    except ValueError as error:
        last = (done.stderr.strip().splitlines() or ["no words"])[-1]
        raise NoDataError(f"{command[0]} has no data: {last[:300]}") from error
    return {
        Finding(each["name"].lower(), each["version"], _name(found), found.get("description", ""))
        for each in tree["dependencies"]
        for found in each.get("vulns", ())
    }


def _name(found: Mapping[str, Any]) -> str:
    """Return the CVE of a vulnerability where it has one."""
    names = (*found.get("aliases", ()), found["id"])
    return next((each for each in names if each.startswith("CVE-")), str(found["id"]))


def left(
    found: Iterable[Finding], accepted: Iterable[Mapping[str, Any]], today: datetime.date
) -> list[Finding]:
    """Return what nobody has accepted, or not any more."""
    known = {(each["package"], each["id"]) for each in accepted if today < each["until"]}
    return sorted(each for each in found if (each.package, each.id) not in known)


def main(arguments: list[str] | None = None) -> int:
    """Check, tell, and return 1 if something is left."""
    parser = argparse.ArgumentParser(prog="python -m deploy.audit", description=__doc__)
    parser.add_argument("--pip-audit", type=Path, help="program to ask; none: the list alone")
    args = parser.parse_args(arguments)
    tree = tomllib.loads(KNOWN_BAD.read_text())
    pinned = pins()
    found = listed(pinned, tree["bad"])
    said = "pip-audit and the list of known-bad versions"
    try:
        if args.pip_audit is None:
            raise NoDataError("no pip-audit is installed")
        found |= asked(args.pip_audit, pinned, ROOT / "build" / "audit")
    except NoDataError as error:
        print(f"{error}: only {KNOWN_BAD.relative_to(ROOT)} was checked", file=sys.stderr)
        said = "the list of known-bad versions alone"
    bad = left(found, tree.get("accepted", ()), datetime.datetime.now(datetime.UTC).date())  # noqa: TID251
    for each in bad:
        print(f"{each.package} {each.version}: {each.id} {each.why.partition(chr(10))[0]}")
    print(f"{len(pinned)} packages, {len(bad)} with known vulnerabilities, by {said}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
