"""What `sharemesh up` shows on a terminal: every process, and why one failed."""

import io
import json

import pytest
from rich.console import Console

from sharemesh.backends.local.clock import SystemClock
from sharemesh.cli.up_display import JsonDisplay, PlainDisplay, TableDisplay
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.child_process import ProcessState, ProcessStatus
from sharemesh.serve.supervise.local_cluster import LocalCluster


@pytest.fixture
def cluster(tmp_path) -> LocalCluster:
    return LocalCluster(
        ServeSettings(data_directory=tmp_path), UpSettings(base_port=0), clock=SystemClock()
    )


def failed() -> ProcessStatus:
    return ProcessStatus(
        "share-leader-0", "share-leader", 0, state=ProcessState.FAILED, message="no room"
    )


def test_table_ends_with_what_was_said_last(cluster) -> None:
    output = io.StringIO()
    display = TableDisplay(Console(file=output, width=100))
    with display.shown(cluster):
        display.changed(failed())
    shown = output.getvalue()
    assert "process" in shown
    assert "restarts" in shown
    assert "share-leader-0 failed: no room" in shown


def test_lines_name_process_state_and_reason(cluster) -> None:
    output = io.StringIO()
    display = PlainDisplay(Console(file=output, highlight=False, soft_wrap=True))
    with display.shown(cluster):
        display.changed(failed())
        display.changed(
            ProcessStatus("a", "r", 0, state=ProcessState.READY, pid=7, host="h", port=1)
        )
    lines = output.getvalue().splitlines()
    assert lines[:2] == [f"data directory {cluster.directory}", f"logs {cluster.logs}"]
    assert lines[2:] == [
        "share-leader-0 failed exit_code=None restarts=0 no room",
        "a ready pid=7 address=h:1",
    ]


def test_when_ready_it_is_told_where_the_logs_are(cluster, monkeypatch) -> None:
    monkeypatch.setattr(LocalCluster, "bootstrap", ("127.0.0.1:1",))
    output = io.StringIO()
    table = TableDisplay(Console(file=output, width=300))
    with table.shown(cluster):
        table.ready(cluster)
    assert f"logs in {cluster.directory}/logs" in output.getvalue()
    output = io.StringIO()
    JsonDisplay(Console(file=output, highlight=False, soft_wrap=True)).ready(cluster)
    assert json.loads(output.getvalue()) == {
        "event": "ready",
        "bootstrap": ["127.0.0.1:1"],
        "data_directory": str(cluster.directory),
        "logs": f"{cluster.directory}/logs",
    }


def test_when_ready_it_is_told_where_clients_of_kafka_begin(cluster, monkeypatch) -> None:
    """KLS-2."""
    monkeypatch.setattr(LocalCluster, "bootstrap", ("127.0.0.1:1",))
    monkeypatch.setattr(LocalCluster, "kafka_bootstrap", ("127.0.0.1:2", "127.0.0.1:3"))
    output = io.StringIO()
    PlainDisplay(Console(file=output, highlight=False, soft_wrap=True)).ready(cluster)
    assert output.getvalue().splitlines() == [
        "kafka listener bootstrap=127.0.0.1:2,127.0.0.1:3",
        "ready bootstrap=127.0.0.1:1",
    ]
    output = io.StringIO()
    table = TableDisplay(Console(file=output, width=300))
    with table.shown(cluster):
        table.ready(cluster)
    assert "Kafka's at 127.0.0.1:2" in output.getvalue()
    output = io.StringIO()
    JsonDisplay(Console(file=output, highlight=False, soft_wrap=True)).ready(cluster)
    assert json.loads(output.getvalue())["kafka_bootstrap"] == ["127.0.0.1:2", "127.0.0.1:3"]
