"""Malformed and hostile requests, and crowds of connections, to running processes: no crash."""

import pytest

from tests.faults.crowds import crowds, more_than_files
from tests.faults.hostile import some_hostile

SEED = 20261


@pytest.mark.integration
@pytest.mark.timeout(180)
async def test_hostile_requests_get_a_proper_error_and_change_no_process():
    outcome = await some_hostile(0, SEED)
    assert outcome.violations == (), f"seed {SEED}: {outcome.notes}"


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "tls"])
async def test_crowds_of_connections_end_no_process_of_any_role(with_tls):
    outcome = await crowds(SEED, with_tls=with_tls, sizes=(300, 3_000), honest=100)
    assert outcome.violations == (), f"seed {SEED}: {outcome.notes}"


@pytest.mark.integration
@pytest.mark.timeout(180)
async def test_more_connections_than_files_are_said_once_and_leave_logs_their_files():
    outcome = await more_than_files(0, SEED)
    assert outcome.violations == (), f"seed {SEED}: {outcome.notes}"
