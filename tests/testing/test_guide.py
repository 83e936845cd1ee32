"""The tests that docs/guides/testing.md shows are tests, and pass."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def shown() -> dict[str, Any]:
    """Return what the blocks of the page define, read one after the other."""
    names: dict[str, Any] = {}
    exec(compile("\n".join(BLOCKS), str(PAGE), "exec"), names)
    return names


TESTS = {name: test for name, test in shown().items() if name.startswith("test_")}


def test_the_page_shows_two_tests():
    assert len(TESTS) == 2


@pytest.mark.parametrize("name", TESTS)
async def test_a_shown_test_passes(name):
    await TESTS[name]()
