"""docs/reference/compatibility.md names what the code has, and proofs that exist."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

from sharemesh.cli import share_groups
from sharemesh.client import (
    AdminClient,
    AsyncAdminClient,
    AsyncProducer,
    AsyncShareConsumer,
    Producer,
    ShareConsumer,
)
from sharemesh.client.config import (
    ADMIN_SETTINGS,
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    REJECTED_BY_SHARE_CONSUMERS,
)
from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS
from sharemesh.domain.group_config.group_definitions import GROUP_CONFIGS
from sharemesh.domain.topics import TOPIC_CONFIGS

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "reference" / "compatibility.md").read_text(encoding="utf-8")
CLIENTS = PAGE[PAGE.index("\n## Clients") :]
PROOF = re.compile(r"`([\w/]+\.py)::(\w+)`")


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def rows() -> list[list[str]]:
    lines = [line for line in CLIENTS.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if row[-1] != "proof"]


def test_every_proof_exists():
    proofs = PROOF.findall(CLIENTS)
    assert len(proofs) > 80
    missing = [(path, name) for path, name in proofs if name not in functions(path)]
    assert not missing


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_every_row_has_a_proof_or_says_why_it_is_absent(row):
    assert len(row) == 3
    assert PROOF.search(row[2]) or row[1].startswith("absent"), row


SETTINGS = (
    *(each.name for each in (*CONSUMER_SETTINGS, *PRODUCER_SETTINGS, *ADMIN_SETTINGS)),
    *REJECTED_BY_SHARE_CONSUMERS,
    *CLUSTER_CONFIGS,
    *GROUP_CONFIGS,
    *TOPIC_CONFIGS,
)


@pytest.mark.parametrize("name", sorted(set(SETTINGS)))
def test_every_setting_is_named(name):
    assert f"`{name}`" in CLIENTS


def test_every_option_of_the_tool_is_named(capsys):
    with pytest.raises(SystemExit):
        share_groups.main(["--help"])
    usage = capsys.readouterr().out.partition("\n\n")[0]
    options = set(re.findall(r"--[a-z-]+", usage))
    assert len(options) > 20
    assert not [each for each in options if not re.search(rf"`{each}( [^`]*)?`", CLIENTS)]


@pytest.mark.parametrize(
    "client",
    [ShareConsumer, AsyncShareConsumer, Producer, AsyncProducer, AdminClient, AsyncAdminClient],
)
def test_every_method_is_named(client):
    names = [name for name, _ in inspect.getmembers(client) if not name.startswith("_")]
    missing = [name for name in names if not re.search(rf"`{name}[(`]|`{name}`", CLIENTS)]
    assert not missing
