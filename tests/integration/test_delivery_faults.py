"""Part delivery of `make faults`, with less load and for a shorter time."""

import pytest

from tests.faults.delivery import SHORT, outage
from tests.faults.kept_records import kills_between_decisions

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

SEED = 20261123
KILLS = 6


async def test_an_outage_with_a_kill_archives_nothing_and_drains():
    """CL-43: no record is archived, and none is acknowledged twice."""
    outcome = await outage(0, SEED, kills=True, size=SHORT)
    assert outcome.violations == (), f"seed {SEED}, {outcome.notes}"


async def test_what_is_delayed_held_and_finished_is_the_same_after_kills():
    """RTY-8: a delay survives leaders and coordinators that die."""
    outcome = await kills_between_decisions(0, SEED, kills=KILLS)
    assert outcome.violations == (), f"seed {SEED}, {outcome.notes}"
