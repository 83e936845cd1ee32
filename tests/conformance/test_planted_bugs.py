"""Bugs of the share state that real code shipped, planted: the test that is named must fail."""

import pytest

from sharemesh.domain.share_state import machine
from tests.conformance import test_o_share_coordinator as scenarios


async def test_a_lower_start_offset_that_wins_is_caught(monkeypatch):
    monkeypatch.setattr(machine, "max", lambda asked, *_: asked, raising=False)
    with pytest.raises(AssertionError):
        await scenarios.test_the_start_offset_never_goes_back()


async def test_without_the_bug_the_same_test_passes():
    await scenarios.test_the_start_offset_never_goes_back()
