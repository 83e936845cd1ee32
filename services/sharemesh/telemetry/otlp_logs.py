"""Log records to a collector by OTLP over gRPC, on the thread of who sends them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1 import logs_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from sharemesh.telemetry.names import SCHEMA_URL, SCOPE
from sharemesh.telemetry.otel_environment import OtlpTarget
from sharemesh.telemetry.otlp import OtlpService, any_value

EXPORT_LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


class LogEntry(NamedTuple):
    """One record: wall time, OpenTelemetry's event name, text, attributes, trace in hex or none."""

    at_ns: int
    event: str
    is_warning: bool
    body: str
    attributes: Mapping[str, object]
    trace_id: str


class OtlpLogs:
    """One service of a collector for log records of one resource."""

    def __init__(self, target: OtlpTarget, resource: Mapping[str, str]) -> None:
        self._service = OtlpService(target, EXPORT_LOGS, ExportLogsServiceResponse)
        self._resource = Resource(attributes=_pairs(resource))

    def export(self, entries: Sequence[LogEntry]) -> int:
        """Send records, return how many were taken; blocks up to the target's timeout.

        Raises:
            ExportError: None was taken.
        """
        scope = otlp.ScopeLogs(
            scope=InstrumentationScope(name=SCOPE),
            log_records=[_record(each) for each in entries],
            schema_url=SCHEMA_URL,
        )
        whole = otlp.ResourceLogs(
            resource=self._resource, scope_logs=[scope], schema_url=SCHEMA_URL
        )
        request = ExportLogsServiceRequest(resource_logs=[whole])
        answer = self._service.send(request.SerializeToString())
        return len(entries) - int(answer.partial_success.rejected_log_records)

    def close(self) -> None:
        """Close the connection."""
        self._service.close()


def _record(entry: LogEntry) -> otlp.LogRecord:
    severity = otlp.SEVERITY_NUMBER_WARN if entry.is_warning else otlp.SEVERITY_NUMBER_INFO
    return otlp.LogRecord(
        time_unix_nano=entry.at_ns,
        observed_time_unix_nano=entry.at_ns,
        severity_number=severity,
        severity_text="WARN" if entry.is_warning else "INFO",
        event_name=entry.event,
        body=any_value(entry.body),
        attributes=_pairs(entry.attributes),
        trace_id=bytes.fromhex(entry.trace_id),
    )


def _pairs(attributes: Mapping[str, object]) -> list[KeyValue]:
    return [KeyValue(key=name, value=any_value(value)) for name, value in attributes.items()]
