"""The audit log of a process: where it goes, and what it costs when it goes nowhere (AUD-9)."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from sharemesh import methods
from sharemesh.audit.listener import AuditedListener
from sharemesh.backends.local.clock import SystemClock
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.process.audit_log import AuditLog
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.telemetry.telemetry import without_export
from sharemesh.testing import Mesh
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import admin_pb2 as admin
from tests.audit.events import change, lines, refusal, trail


def audit_log(directory, **settings):
    made = ServeSettings(data_directory=Path(directory), **settings)
    return AuditLog(made, "node-1", SystemClock())


def telemetry():
    return without_export(lambda: 0)


def values(found):
    return {each.metric.name: each.values[0][1] for each in found.registry.collect()}


async def test_lines_are_in_the_log_directory_and_counted(tmp_path):
    log, found = audit_log(tmp_path), telemetry()
    log.start(found)
    log.trail.note(change())
    log.on_refused("Admin/Metadata", "", "ipv4:1.2.3.4:5", "UNAUTHENTICATED")
    await log.close()
    [line] = (tmp_path / "logs" / "node-1.changes.jsonl").read_text().splitlines()
    assert json.loads(line)["node"] == "node-1"
    [line] = (tmp_path / "logs" / "node-1.access.jsonl").read_text().splitlines()
    assert json.loads(line)["error"] == "UNAUTHENTICATED"
    assert values(found) == {
        "share.audit.lines": 2,
        "share.audit.folded": 0,
        "share.audit.dropped": 0,
    }


async def test_lines_go_to_a_directory_of_their_own_or_to_stdout(
    tmp_path, monkeypatch, capfdbinary
):
    log = audit_log(tmp_path, audit_directory=tmp_path / "own")
    log.start(telemetry())
    log.trail.note(change())
    await log.close()
    assert (tmp_path / "own" / "node-1.changes.jsonl").stat().st_size
    with open(1, "wb", closefd=False) as out:  # as pytest's own stdout has no buffer
        monkeypatch.setattr(sys, "stdout", type("Stdout", (), {"buffer": out}))
        log = audit_log(tmp_path, audit_log="stdout")
        log.start(telemetry())
        log.trail.note(refusal())
        await log.close()
    assert capfdbinary.readouterr().out.startswith(b'{"log": "audit", ')
    assert not (tmp_path / "logs").exists()


async def test_without_an_audit_log_nothing_is_noted_or_wrapped(tmp_path):
    log = audit_log(tmp_path, audit_log="none")
    log.start(telemetry())
    assert (log.trail, log.on_refused) == (None, None)
    await log.close()
    assert not list(tmp_path.iterdir())
    async with Mesh() as mesh:  # a mesh in memory has none
        handlers = mesh.network.host("", mesh.nodes[0].address).unary
        assert all("AuditedListener" not in each.__qualname__ for each in handlers.values())


def test_a_log_that_cannot_be_written_stops_the_start(tmp_path):
    (tmp_path / "logs").write_text("")
    with pytest.raises(StartError) as raised:
        audit_log(tmp_path).start(telemetry())
    assert raised.value.code is ExitCode.DIRECTORY_UNUSABLE
    assert "audit_log" in raised.value.message


async def test_traffic_costs_a_call_nothing_but_one_variable():
    """AUD-9: no task, no line, no look at the message; a few microseconds at most."""
    log = trail()
    network = LocalNetwork()
    asked = []

    async def handler(request, _context):
        asked.append(request)
        return admin.MetadataResponse()

    listened = {}

    class Recording:
        def offer(self, method, handler):
            listened[method.name] = handler

    AuditedListener(Recording(), log, bytes.hex).offer(methods.METADATA, handler)
    context = network.caller()
    answering = listened[methods.METADATA.name](None, context)  # whatever the request is
    assert (await answering) == admin.MetadataResponse()
    assert asked == [None]
    assert len(asyncio.all_tasks()) == 1
    assert not lines(log, ending=True)
