"""Audit lines as OpenTelemetry log records (AUD-10)."""

import json
from collections.abc import Sequence

from sharemesh.audit.trail import Line
from sharemesh.telemetry.otlp_logs import LogEntry, OtlpLogs

EVENT = "sharemesh.audit"
_ATTRIBUTES = ("kind", "decision", "principal", "peer", "rpc", "operation", "error", "error_code")
_COUNTED = ("more_resources", "repeated", "first", "last")
RECORDS_MAX = 500
"""Of one export: a collector takes a few MiB at a time."""


class AuditRecords:
    """Fills ``AuditSink`` with a collector."""

    def __init__(self, logs: OtlpLogs) -> None:
        self._logs = logs

    def write(self, lines: Sequence[Line]) -> int:
        """Send the lines, return how many the collector did not take.

        Raises:
            ExportError: It takes none, or not the rest.
        """
        taken = 0
        for start in range(0, len(lines), RECORDS_MAX):
            taken += self._logs.export([_entry(each) for each in lines[start:][:RECORDS_MAX]])
        return len(lines) - taken

    def close(self) -> None:
        """Close the connection."""
        self._logs.close()


def _entry(line: Line) -> LogEntry:
    """Return the record of a line: the whole line is its text, its fields are attributes."""
    fields = json.loads(line.text)
    attributes = {
        f"sharemesh.audit.{name}": fields[name]
        for name in (*_ATTRIBUTES, *_COUNTED)
        if name in fields
    }
    attributes["sharemesh.audit.resources"] = [
        f"{each['type']}:{each['name']}" for each in fields["resources"]
    ]
    return LogEntry(
        at_ns=line.at_ms * 1_000_000,
        event=EVENT,
        is_warning=fields["decision"] == "refused",
        body=line.text.decode().rstrip("\n"),
        attributes=attributes,
        trace_id=fields.get("trace_id", ""),
    )
