"""Audit lines at an OpenTelemetry collector (AUD-10)."""

import json
import logging

import pytest

from sharemesh.audit.collected import RECORDS_MAX
from sharemesh.backends.local.clock import SystemClock
from sharemesh.serve.process.audit_log import AuditLog
from sharemesh.serve.process.telemetry_export import TelemetryExport
from sharemesh.serve.settings.settings import ServeSettings
from tests.audit.events import change, refusal
from tests.telemetry.collector import collector

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
ASKED = {"OTEL_LOGS_EXPORTER": "otlp"}


def started(directory, environment, **settings):
    """Return an audit log that has started, and the process's other telemetry."""
    made = ServeSettings(data_directory=directory, **settings)
    clock = SystemClock()
    export = TelemetryExport(made, "node-1", clock, environment=environment)
    log = AuditLog(made, "node-1", clock, environment=environment)
    log.start(export.telemetry, export.log_exporter())
    return log, export


def dropped(export):
    [found] = [
        each.values[0][1]
        for each in export.telemetry.registry.collect()
        if each.metric.name == "share.audit.dropped"
    ]
    return found


async def test_lines_are_log_records_with_their_fields_and_their_trace(tmp_path):
    with collector() as there:
        environment = ASKED | {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": there.endpoint}
        log, export = started(tmp_path, environment)
        log.trail.note(change(trace_id=TRACE_ID))
        log.trail.note(refusal())
        await log.close()
        done, refused = there.logs
    assert done.trace_id.hex() == TRACE_ID
    assert (done.severity_text, refused.severity_text) == ("INFO", "WARN")
    assert {each.event_name for each in there.logs} == {"sharemesh.audit"}
    written = (tmp_path / "logs" / "node-1.changes.jsonl").read_text()
    assert json.loads(done.body.string_value) == json.loads(written)
    found = {each.key: each.value for each in refused.attributes}
    assert found["sharemesh.audit.principal"].string_value == "User:eve"
    assert found["sharemesh.audit.error_code"].int_value == 29
    [named] = found["sharemesh.audit.resources"].array_value.values
    assert named.string_value == "topic:secret"
    assert there.resources[0]["service.instance.id"] == "node-1"
    assert dropped(export) == 0


async def test_a_collector_alone_is_enough_and_takes_many(tmp_path):
    with collector() as there:
        settings = {"audit_log": "none", "telemetry_endpoint": there.endpoint}
        log, _ = started(tmp_path, ASKED, **settings)
        assert log.on_refused is not None
        for number in range(RECORDS_MAX + 1):
            log.trail.note(change(f"t{number}"))
        await log.close()
        assert len(there.logs) == RECORDS_MAX + 1
    assert not (tmp_path / "logs").exists()


async def test_a_collector_that_takes_nothing_costs_its_copy_only(tmp_path, caplog):
    with collector(needed="token") as there, caplog.at_level(logging.WARNING):
        environment = ASKED | {"OTEL_EXPORTER_OTLP_ENDPOINT": there.endpoint}
        log, export = started(tmp_path, environment)
        log.trail.note(change())
        await log.close()
        assert dropped(export) == 1
    assert "audit lines are dropped" in caplog.text
    assert (tmp_path / "logs" / "node-1.changes.jsonl").read_text().count("\n") == 1


@pytest.mark.parametrize(
    "environment",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        ASKED | {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
    ],
)
async def test_nothing_is_sent_unless_it_is_asked_for(tmp_path, environment):
    log, export = started(tmp_path, environment, audit_log="none")
    assert export.log_exporter() is None
    assert log.trail is None
    await log.close()
