"""Suites that run side by side take no port from each other."""

import subprocess
import sys

from tests import free_ports
from tests.free_ports import free_port

ASKED = "from tests.free_ports import free_port; print(*(free_port() for _ in range(200)))"


def test_no_port_is_given_twice():
    ports = [free_port() for _ in range(free_ports.HELD_MAX)]
    assert len(set(ports)) == len(ports)


def test_another_process_gets_other_ports():
    own = {free_port() for _ in range(free_ports.HELD_MAX)}
    program = [sys.executable, "-c", ASKED]
    other = subprocess.run(program, capture_output=True, text=True, check=True)
    assert own.isdisjoint(map(int, other.stdout.split()))
