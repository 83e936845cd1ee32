"""What happens is a function of what came before it: nothing is done in the order of a set.

Tasks, events, futures and streams in a set come out in the order of their addresses in memory,
which is another one in each run; a dict keeps the order in which they were put in.
"""

import ast
from pathlib import Path

import pytest

PRODUCT = Path(__file__).parents[2] / "services" / "sharemesh"
LIVE = ("asyncio.", "GrpcClientStream")


def unordered(source: str) -> list[str]:
    """Return the annotations of sets whose elements have work to do."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "set":
            element = ast.unparse(node.slice).strip("'\"")
            if element.startswith(LIVE):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_no_set_holds_what_runs():
    found = {
        str(path.relative_to(PRODUCT)): sets
        for path in sorted(PRODUCT.rglob("*.py"))
        if (sets := unordered(path.read_text(encoding="utf-8")))
    }
    assert not found, f"{found}: use dict[…, None]"


@pytest.mark.parametrize(
    "annotation",
    ["set[asyncio.Event]", "dict[str, set[asyncio.Task[None]]]", "set['asyncio.Task']"],
)
def test_such_a_set_is_found(annotation):
    assert unordered(f"waiters: {annotation}")


def test_sets_of_values_are_not():
    assert not unordered("names: set[str] = set()")
