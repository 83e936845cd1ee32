"""A program that ends without waiting for what it sent hears of it (CL-48)."""

import os
import subprocess
import sys

import pytest

BEGIN = """
import os, sys
from sharemesh.client import connect
producer = connect("127.0.0.1:1").producer()
"""
TOLD = "bytes of records that it sent are not confirmed"


def said(program: str) -> str:
    """Run a program against a port where nobody listens, and return what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "false"},
    )
    return done.stderr


def test_cl_48_records_that_nobody_waited_for_are_told_at_the_end():
    told = said("for _ in range(3): producer.send('orders', b'v' * 100)")
    assert told.count(TOLD) == 1
    assert "call flush() or close() first" in told


@pytest.mark.parametrize(
    "program",
    [
        "",
        "producer.send('orders', b'v'); producer.close(timeout_ms=0)",
        "with producer: pass",
    ],
    ids=["nothing sent", "closed in vain", "a with block"],
)
def test_cl_48_who_sent_nothing_or_closed_it_is_told_nothing(program):
    assert TOLD not in said(program)


def test_cl_48_a_forked_process_says_nothing_of_its_parents_records():
    told = said(
        "producer.send('orders', b'v')\n"
        "child = os.fork()\n"
        "if not child: sys.exit()\n"
        "assert os.waitpid(child, 0)[1] == 0"
    )
    assert told.count(TOLD) == 1
