"""The whole mesh, real processes and a real etcd, with a kill -9 of each role under load."""

import pytest

from tests.faults.mesh import kill_each_role


@pytest.mark.integration
@pytest.mark.timeout(180)
async def test_a_kill_of_each_role_loses_nothing_and_repeats_nothing():
    outcome = await kill_each_role(0, seed=20261)
    assert outcome.violations == (), f"seed 20261, order {outcome.notes}"
