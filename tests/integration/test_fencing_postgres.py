"""Consumers that are frozen past their locks write to a real PostgreSQL (spec TOK-3)."""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sharemesh.client import connect
from tests.cli.local_up import local_up
from tests.conformance.client_world import SHORT_LOCKS
from tests.integration.frozen_worker import TABLES
from tests.postgres_server import PsqlSession, postgres

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]

RECORDS = 40
FROZEN = 3
DEADLINE_S = 90
STALE = (
    "select count(*) from effects late join effects early on late.id = early.id "
    "and late.number > early.number and late.token < early.token"
)
"""Effects of a delivery behind one of a later delivery of the same record."""


class Worker:
    def __init__(self, stack, *arguments):
        command = [sys.executable, "-m", "tests.integration.frozen_worker", *arguments]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(self.child.stdout.close)
        stack.callback(self.child.wait)
        stack.callback(self.child.kill)

    @property
    def is_frozen(self):
        stat = Path(f"/proc/{self.child.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def in_hand(self):
        """Return the record that it is frozen over, and its token."""
        assert self.child.stdout.readline() == "begun\n"
        return self.child.stdout.readline().split()

    def stop(self):
        self.child.terminate()
        assert self.child.wait(DEADLINE_S) == 0


def until(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("fencing") / "data", *SHORT_LOCKS) as up:
        assert up.sharemesh("topics", "create", "orders", "--partitions", "2").returncode == 0
        rows = "".join(f"{n}\n" for n in range(RECORDS))
        assert up.sharemesh("produce", "orders", stdin=rows).returncode == 0
        yield up


@pytest.mark.parametrize("guard", ["token", "nothing"])
def test_tok_3_frozen_consumers_leave_no_stale_effect_behind_a_token(up, guard):
    """TOK-3: 0 stale effects with the token, and more than 0 without it."""
    settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "1000"}
    with connect(up.bootstrap).admin() as admin:
        admin.alter_group_configs(guard, settings)
    with postgres() as sockets, contextlib.ExitStack() as stack:
        ask = PsqlSession(sockets)
        stack.callback(ask.close)
        for table in TABLES:
            ask(table)
        frozen = [
            Worker(stack, up.bootstrap, guard, sockets, guard, str(n + 1)) for n in range(FROZEN)
        ]
        until(lambda: all(each.is_frozen for each in frozen))
        steady = Worker(stack, up.bootstrap, guard, sockets, guard, "0")
        until(lambda: ask("select count(*) from orders") == [str(RECORDS)])
        for name, token in [each.in_hand() for each in frozen]:
            later = f"select id from orders where id = '{name}' and token > '{token}'"
            until(lambda later=later: ask(later))
        for each in frozen:
            each.child.send_signal(signal.SIGCONT)
        said = [each.child.stdout.readline() for each in frozen]
        for each in (*frozen, steady):
            each.stop()
        [stale] = ask(STALE)
        if guard == "token":
            assert said == ["was refused\n"] * FROZEN
            assert stale == "0"
        else:
            assert int(stale) > 0
