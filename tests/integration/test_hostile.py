"""Malformed and hostile requests over all services of running processes; no crash, no flood."""

import pytest

from tests.faults.hostile import some_hostile

SEED = 20261


@pytest.mark.integration
@pytest.mark.timeout(180)
async def test_hostile_requests_get_a_proper_error_and_change_no_process():
    outcome = await some_hostile(0, SEED)
    assert outcome.violations == (), f"seed {SEED}: {outcome.notes}"
