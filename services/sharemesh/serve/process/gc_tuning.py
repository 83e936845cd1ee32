"""How the Python interpreter of a role process is set: turns of threads, search for cycles."""

import gc
import sys

THREAD_SWITCH_S = 0.0005
"""A storage job needs the interpreter back after each system call; the usual 5 ms, waited for a
few times in each commit, cost a busy coordinator a quarter of its throughput (measured)."""
CYCLE_SEARCH_THRESHOLDS = (10_000, 20, 20)
"""New objects before the youngest are searched for cycles, and searches of one generation before
the next older one's. With Python's 700 requests that wait for a commit are walked again and again:
a tenth of a coordinator's processor time, and a fifth with a thousand open streams (measured)."""


def tune_interpreter() -> None:
    """Set up this process; call it once, when everything is imported.

    What exists by then is for good and is not searched again.
    """
    sys.setswitchinterval(THREAD_SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*CYCLE_SEARCH_THRESHOLDS)
