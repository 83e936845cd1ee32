"""Counts called functions: a cost that does not depend on the machine."""

import contextlib
import sys


def calls_of(work):
    """Return how many functions are called, those of C among them: what loops is seen."""
    count = 0

    def called(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        with contextlib.suppress(StopIteration):  # a coroutine that was sent to its end
            work()
    finally:
        sys.setprofile(None)
    return count
