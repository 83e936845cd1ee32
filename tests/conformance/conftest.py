"""The mark that carries scenario ids."""

import pytest

from tests.conformance.scenario import LEFT_OUT, scenarios


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "scenario(*ids): the scenarios that this test checks")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse ids that the list does not know, and ids that are left out."""
    known = scenarios()
    for item in items:
        for mark in item.iter_markers("scenario"):
            for each in mark.args:
                if each not in known or each in LEFT_OUT:
                    raise pytest.UsageError(f"{item.nodeid}: {each} is unknown or left out")
