"""One trial of each row of `make faults PART=spark`: Spark is killed, with all its processes."""

import random

import pytest

from tests.faults.spark import compact_kill, history_kill
from tests.faults.spark_job import Usual

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
FIRST_RUN = Usual(first_file_s=4, end_s=8)
"""About what it takes; the trials of `make faults` measure it, by one more run."""


@pytest.mark.parametrize("row", [compact_kill, history_kill])
async def test_a_killed_spark_job_leaves_what_its_rerun_goes_on_from(row):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    outcome = await row(1, seed, FIRST_RUN)
    assert outcome.violations == ()
