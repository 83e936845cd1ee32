"""A worker of the simulation is ended like any process, whatever was simulated in it."""

import signal

from tests.simulation.mutants.plan import MUTANTS, PLANTED_IN
from tests.simulation.patching import Patches
from tests.simulation.processes import in_processes
from tests.simulation.run import run_seed
from tests.simulation.world import Options

CUT_SHORT = "locks_expire_early"


def ends_by_sigterm(seed: int) -> tuple[bool, bool]:
    """Return whether a planted bug ended a seed, and SIGTERM had its default action after it."""
    patches = Patches()
    MUTANTS[CUT_SHORT](patches)
    options = Options(PLANTED_IN[CUT_SHORT].workload)
    outcome = run_seed(seed, options, patches=patches, stop_early=True)
    return bool(outcome.violations), signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_consumers_that_are_left_in_their_run_leave_sigterm_to_the_pool():
    ended = list(in_processes(ends_by_sigterm, (1, 2), 2))
    assert any(cut_short for cut_short, _ in ended)
    assert all(is_default for _, is_default in ended)
