"""Consumers under ``run(handler)`` while leaders, coordinators and consumers are killed."""

import pytest

from tests.faults.client import client_chaos

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(240)]

SEED = 20261121
CHAOS_S = 20.0


async def test_nothing_is_lost_or_repeated_and_nobody_is_stuck():
    outcome = await client_chaos(0, SEED, chaos_s=CHAOS_S)
    assert outcome.violations == (), f"seed {SEED}, {outcome.notes}"
