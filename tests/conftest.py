"""What every test folder shares: Hypothesis draws the same examples in every run by default.

A gate must say the same of the same commit. ``SHAREMESH_EXPLORE=1`` draws new examples; what they
find is kept as an example or a test of its own.
"""

import os

from hypothesis import settings

# Tests start processes by fork; gRPC's own handlers would run in the child before it is replaced,
# and have ended it there.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

# No deadline an example: a busy machine is not a fault.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("explore", print_blob=True, deadline=None)
settings.load_profile("explore" if os.environ.get("SHAREMESH_EXPLORE") else "gate")
