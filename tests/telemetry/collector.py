"""A collector in this process: OTLP's own services on a port."""

import threading
from concurrent import futures
from contextlib import contextmanager

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from sharemesh.telemetry.names import SCHEMA_URL


class Collector:
    """OTLP's trace and metrics services on a port: messages are parsed by protobuf, and kept."""

    def __init__(self, reject=0, certificate=None, needed=None):
        """``certificate`` is a pair of key and chain; ``needed`` a metadata key that calls need."""
        self.logs = []
        self.spans, self.metrics, self.resources, self.batches = [], [], [], []
        self.metadata = []
        self.arrived = threading.Event()
        self._reject = reject
        self._needed = needed
        services = {
            "logs.v1.LogsService": (self._log, logs_service_pb2.ExportLogsServiceRequest),
            "trace.v1.TraceService": (self._trace, trace_service_pb2.ExportTraceServiceRequest),
            "metrics.v1.MetricsService": (
                self._metric,
                metrics_service_pb2.ExportMetricsServiceRequest,
            ),
        }
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        for name, (answer, request) in services.items():
            handler = grpc.unary_unary_rpc_method_handler(
                answer, request.FromString, lambda message: message.SerializeToString()
            )
            self._server.add_generic_rpc_handlers(
                [
                    grpc.method_handlers_generic_handler(
                        f"opentelemetry.proto.collector.{name}", {"Export": handler}
                    )
                ]
            )
        if certificate is None:
            self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        else:
            credentials = grpc.ssl_server_credentials([certificate])
            port = self._server.add_secure_port("127.0.0.1:0", credentials)
            self.endpoint = f"https://127.0.0.1:{port}"
        self._server.start()

    def stop(self):
        self._server.stop(None).wait(5)

    def _admit(self, context):
        metadata = dict(context.invocation_metadata())
        self.metadata.append(metadata)
        if self._needed and self._needed not in metadata:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"no {self._needed}")

    def _trace(self, request, context):
        self._admit(context)
        for whole in request.resource_spans:
            self.resources.append(
                {each.key: each.value.string_value for each in whole.resource.attributes}
            )
            for scope in whole.scope_spans:
                assert (whole.schema_url, scope.schema_url) == (SCHEMA_URL, SCHEMA_URL)
                assert scope.scope.name == "sharemesh"
                self.spans += scope.spans
                self.batches.append(len(scope.spans))
        self.arrived.set()
        answer = trace_service_pb2.ExportTraceServiceResponse()
        answer.partial_success.rejected_spans = self._reject
        return answer

    def _log(self, request, context):
        self._admit(context)
        for whole in request.resource_logs:
            self.resources.append(
                {each.key: each.value.string_value for each in whole.resource.attributes}
            )
            for scope in whole.scope_logs:
                assert (whole.schema_url, scope.schema_url) == (SCHEMA_URL, SCHEMA_URL)
                self.logs += scope.log_records
        self.arrived.set()
        answer = logs_service_pb2.ExportLogsServiceResponse()
        answer.partial_success.rejected_log_records = self._reject
        return answer

    def _metric(self, request, context):
        self._admit(context)
        for whole in request.resource_metrics:
            self.resources.append(
                {each.key: each.value.string_value for each in whole.resource.attributes}
            )
            for scope in whole.scope_metrics:
                self.metrics += scope.metrics
        return metrics_service_pb2.ExportMetricsServiceResponse()


@contextmanager
def collector(**settings):
    made = Collector(**settings)
    try:
        yield made
    finally:
        made.stop()
