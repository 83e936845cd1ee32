"""Clients of a forked process say at once that they cannot work."""

import os
import signal
import subprocess
import sys

import pytest

from sharemesh.client import AdminClient, Producer, ShareConsumer
from sharemesh.client.errors import ConnectionFailedError, IllegalStateError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

CONFIG = {"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 100}


def said_in_a_fork(call) -> str:
    """Return what a call says in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            call()
            said = "done"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def clients():
    """Begin each kind of client; count those that are refused."""
    refused = []
    for make in (
        lambda: Producer(CONFIG),
        lambda: ShareConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}),
        lambda: AdminClient({"bootstrap.servers": "127.0.0.1:1"}),
    ):
        try:
            make()
        except IllegalStateError as error:
            refused.append(str(error))
    raise IllegalStateError(f"{len(refused)} refused, {refused[:1]}")


def test_a_client_that_could_never_hear_an_answer_is_refused():
    """The parent's gRPC was in use: its thread stayed there, and a new client would only wait."""
    with Producer(CONFIG) as producer:
        with pytest.raises(ConnectionFailedError):
            producer.partitions_for("t")
        said = said_in_a_fork(clients)
    assert "3 refused" in said
    assert "forked while clients were open" in said


PROGRAM = f"""
import os
from sharemesh.client import AdminClient, Producer

with Producer({CONFIG!r}):  # made, and not used yet
    child = os.fork()
    if not child:
        Producer({CONFIG!r})
        AdminClient({{"bootstrap.servers": "127.0.0.1:1"}})
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_process_that_was_forked_while_no_client_was_used_may_make_clients():
    """In a program of its own: other tests have left gRPC's threads in this one."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], timeout=60, check=True)
