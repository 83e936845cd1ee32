"""gRPC's core is set up before it is loaded (decision 0014)."""

import os
import subprocess
import sys

import pytest

from sharemesh.rpc.polling import EXPERIMENTS, POLLED

PROGRAM = """
import os, sys
from sharemesh.serve.run import run_loop

async def look():
    assert "grpc" not in sys.modules, "it was loaded before it was set up"
    print(os.environ["GRPC_EXPERIMENTS"])
    return 0

sys.exit(run_loop(look()))
"""


@pytest.mark.parametrize("given", [None, "", "tcp_frame_size_tuning"])
def test_sockets_are_polled_in_one_thread_unless_told_otherwise(given):
    environment = {name: value for name, value in os.environ.items() if name != EXPERIMENTS}
    if given is not None:
        environment[EXPERIMENTS] = given
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == (POLLED if given is None else given)
