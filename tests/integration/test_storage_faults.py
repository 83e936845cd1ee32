"""One trial of each fault of the storage part; `make faults PART=storage` runs fifty of each."""

import pytest

from tests.faults.storage import FAULTS
from tests.faults.trials import Series

SEED = 20261


@pytest.mark.integration
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
async def test_a_trial_finds_no_violation(fault):
    outcome = await fault.run(1 if isinstance(fault, Series) else 0, SEED)
    assert outcome.violations == (), f"seed {SEED}: {outcome.notes}"
