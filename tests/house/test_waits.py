"""Rooms in which time decides who owns what ask the clock only (docs/decisions/0007)."""

import ast
from pathlib import Path

import pytest

PRODUCT = Path(__file__).parents[2] / "services" / "sharemesh"
DECIDING = ("domain", "cluster", "controller", "persister", "backends/embedded")


def patience(path: Path) -> list[str]:
    """Return the waits of a module that the loop's time ends."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = ast.unparse(node.func)
            is_bounded = any(each.arg == "timeout" for each in node.keywords)
            if name in {"asyncio.timeout", "asyncio.timeout_at", "asyncio.wait_for"} or (
                name == "asyncio.wait" and is_bounded
            ):
                found.append(f"{path.name}:{node.lineno} {name}")
    return found


@pytest.mark.parametrize("room", DECIDING)
def test_time_that_decides_comes_from_the_clock(room):
    modules = sorted((PRODUCT / room).rglob("*.py"))
    assert modules
    assert not [wait for path in modules for wait in patience(path)]


def test_patience_is_found_where_it_is():
    assert patience(PRODUCT / "share_leader" / "partition" / "leadership.py")
