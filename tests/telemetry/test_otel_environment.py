"""OTEL_* variables: what OpenTelemetry's specification says of them holds for our own exporters."""

import asyncio
import logging
import random

import pytest
import trustme

from sharemesh.backends.local.clock import SystemClock
from sharemesh.serve.process.telemetry_export import TelemetryExport
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.telemetry.instruments import InstrumentKind, Metric
from sharemesh.telemetry.otel_environment import OtlpTarget, read_otel_environment
from sharemesh.telemetry.spans import Sampler, Span, Spans
from sharemesh.telemetry.trace_context import TraceContext
from tests.telemetry.collector import collector

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def complaints(**variables):
    return read_otel_environment({ENDPOINT: "http://c:4317"} | variables).complaints


async def exported(spans=1, endpoint="", clock=None, **environment):
    """Run a process' export with these variables: some spans, one collection of metrics."""
    settings = ServeSettings(cluster_id="prod", telemetry_endpoint=endpoint)
    environment = {"OTEL_METRIC_EXPORT_INTERVAL": "20"} | environment
    export = TelemetryExport(settings, "n1", SystemClock(), environment=environment)
    await export.start()
    telemetry = export.telemetry
    telemetry.registry.counter(Metric("a", InstrumentKind.COUNTER, "1", "a")).add()
    for _ in range(spans if telemetry.spans.enabled else 0):
        telemetry.spans.end(Span("work", telemetry.spans.context(), None, 1, 2, {}))
    return export


async def until(reached):
    async with asyncio.timeout(10):
        while not reached():
            await asyncio.sleep(0.005)


async def test_the_endpoint_alone_switches_spans_and_metrics_on():
    with collector() as receiver:
        export = await exported(**{ENDPOINT: receiver.endpoint})
        await until(lambda: receiver.metrics)
        await export.close()
    assert [span.name for span in receiver.spans] == ["work"]


async def test_no_variable_and_no_setting_sends_nothing():
    export = await exported()
    assert not export.telemetry.spans.enabled
    await export.close()


async def test_a_signals_endpoint_wins_over_the_general_one():
    with collector() as traces, collector() as rest:
        variables = {ENDPOINT: rest.endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": traces.endpoint}
        export = await exported(**variables)
        await until(lambda: rest.metrics)
        await export.close()
    assert (len(traces.spans), traces.metrics, rest.spans) == (1, [], [])


async def test_the_setting_wins_over_the_variables():
    with collector() as ours, collector() as theirs:
        variables = {
            ENDPOINT: theirs.endpoint,
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": theirs.endpoint,
        }
        export = await exported(endpoint=ours.endpoint, **variables)
        await until(lambda: ours.metrics)
        await export.close()
    assert (len(ours.spans), theirs.spans, theirs.metrics) == (1, [], [])


async def test_headers_reach_a_collector_that_demands_them_for_spans_and_metrics():
    with collector(needed="api-key") as receiver:
        headers = "Api-Key=s%20ecret,tenant=a=b"
        export = await exported(
            **{ENDPOINT: receiver.endpoint, "OTEL_EXPORTER_OTLP_HEADERS": headers}
        )
        await until(lambda: receiver.metrics)
        await export.close()
    assert len(receiver.spans) == 1
    assert all(each["api-key"] == "s ecret" for each in receiver.metadata)
    assert all(each["tenant"] == "a=b" for each in receiver.metadata)


async def test_a_refused_export_is_logged_with_the_collectors_words(caplog):
    with collector(needed="api-key") as receiver, caplog.at_level(logging.WARNING):
        export = await exported(**{ENDPOINT: receiver.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "5"})
        await until(lambda: len(caplog.messages) >= 2 and len(receiver.metadata) >= 4)
        await export.close()
    address = receiver.endpoint.removeprefix("http://")
    why = f"dropped: the collector {address} answers UNAUTHENTICATED: no api-key"
    assert sorted(caplog.messages) == [f"metrics are {why}", f"spans are {why}"]


async def test_the_authority_of_a_collectors_certificate_is_a_file(tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with collector(certificate=(issued.private_key_pem.bytes(), chain)) as receiver:
        variable = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path / "ca.pem")}
        export = await exported(**{ENDPOINT: receiver.endpoint} | variable)
        await until(lambda: receiver.metrics)
        await export.close()
    assert len(receiver.spans) == 1


async def test_service_name_and_resource_attributes_win_over_what_is_derived():
    with collector() as receiver:
        export = await exported(
            **{
                ENDPOINT: receiver.endpoint,
                "OTEL_SERVICE_NAME": "queue",
                "OTEL_RESOURCE_ATTRIBUTES": "service.name=no, deployment.environment=a%2Cb",
            }
        )
        await until(lambda: receiver.metrics)
        await export.close()
    for resource in receiver.resources:
        assert resource["service.name"] == "queue"
        assert resource["deployment.environment"] == "a,b"
        assert resource["service.namespace"] == "prod"
        assert resource["service.instance.id"] == "n1"


async def test_a_disabled_sdk_sends_nothing_whatever_the_settings_say(caplog, tmp_path):
    with collector() as receiver, caplog.at_level(logging.INFO):
        export = await exported(endpoint=receiver.endpoint, OTEL_SDK_DISABLED="TRUE")
        assert not export.telemetry.spans.enabled
        await export.close()
    assert (receiver.spans, receiver.metrics) == ([], [])
    assert "OTEL_SDK_DISABLED is true" in caplog.text


async def test_batches_and_queue_are_those_of_the_batch_span_processor():
    with collector() as receiver:
        export = await exported(
            spans=25,
            **{
                ENDPOINT: receiver.endpoint,
                "OTEL_BSP_MAX_QUEUE_SIZE": "20",
                "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8",
                "OTEL_BSP_SCHEDULE_DELAY": "60000",
            },
        )
        await export.close()
    assert receiver.batches == [8, 8, 4]
    assert export.telemetry.spans.dropped == 5


async def test_what_cannot_be_used_is_reported_once_at_the_start(caplog):
    with collector() as receiver, caplog.at_level(logging.WARNING):
        export = await exported(
            **{ENDPOINT: receiver.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        )
        await until(lambda: receiver.metrics)
        await export.close()
    assert caplog.messages == [
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf is not offered; grpc is used "
        "(a collector's port for it is mostly 4317)"
    ]
    assert len(receiver.spans) == 1


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OTEL_SDK_DISABLED", "1", "is neither true nor false; it counts as false"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=b,c", "is not key=value,key=value; none of it is used"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=%FF", "is not key=value,key=value; none of it is used"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "is not offered; parentbased_always_on is used"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "is no whole number from 1 to 262144; 16384 is used"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "9" * 30, "is no whole number from 1 to 262144"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1.5", "is no whole number from 1 to 3600000; 1000 is used"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "-1", "is no whole number from 1 to 3600000; 5000 is used"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "x", "is no whole number from 1 to 3600000; 15000 is"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "5s", "is no whole number from 1 to 3600000; 5000 is used"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "is neither gzip nor none; none is used"),
        ("OTEL_EXPORTER_OTLP_INSECURE", "yes", "is neither true nor false; it counts as false"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/file", "cannot be read (No such file"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "is not offered; otlp is used where an endpoint is set"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_and_the_default_is_used(variable, value, said):
    [complaint] = complaints(**{variable: value})
    assert complaint.startswith(f"{variable}={value[:100]} {said}")
    usual = read_otel_environment({ENDPOINT: "http://c:4317"})
    found = read_otel_environment({ENDPOINT: "http://c:4317", variable: value})
    for name in ("disabled", "resource", "sampler", "traces", "metrics", "queue_max"):
        assert getattr(found, name) == getattr(usual, name)


def test_a_wrong_header_is_reported_without_its_value():
    [complaint] = complaints(OTEL_EXPORTER_OTLP_HEADERS="a=b,päss=secret")
    assert complaint.startswith("OTEL_EXPORTER_OTLP_HEADERS: header 2 is not name=value")
    assert "secret" not in complaint
    found = read_otel_environment(
        {ENDPOINT: "http://c:4317", "OTEL_EXPORTER_OTLP_HEADERS": "a=b,päss=secret"}
    )
    assert found.traces.headers == (("a", "b"),)


def test_a_key_without_a_certificate_is_reported(tmp_path):
    (tmp_path / "key").write_text("k")
    [complaint] = complaints(OTEL_EXPORTER_OTLP_CLIENT_KEY=str(tmp_path / "key"))
    assert "go together; neither is used" in complaint


def test_an_empty_variable_is_an_unset_one():
    names = ("OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER", "OTEL_BSP_SCHEDULE_DELAY", ENDPOINT)
    assert read_otel_environment(dict.fromkeys(names, " ")) == read_otel_environment({})


def test_an_exporter_may_be_none_and_otlp_has_a_default_endpoint():
    found = read_otel_environment({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none"})
    assert (found.traces, found.metrics) == (OtlpTarget("http://localhost:4317"), None)
    found = read_otel_environment({"OTEL_TRACES_EXPORTER": "none"}, endpoint="http://c:1")
    assert (found.traces, found.metrics) == (None, OtlpTarget("http://c:1"))


def test_timeouts_are_milliseconds_and_the_shorter_one_bounds_an_export():
    found = read_otel_environment(
        {
            ENDPOINT: "http://c:1",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "9000",
            "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "7000",
            "OTEL_BSP_EXPORT_TIMEOUT": "8000",
        }
    )
    assert (found.traces.timeout_s, found.metrics.timeout_s) == (8.0, 7.0)


@pytest.mark.parametrize(
    ("endpoint", "insecure", "address", "plain"),
    [
        ("http://c:4317", False, "c:4317", True),
        ("http://c:4317/v1/traces", False, "c:4317", True),
        ("https://c:4317/", True, "c:4317", False),
        ("c:4317", False, "c:4317", False),
        ("c:4317", True, "c:4317", True),
        ("dns:///c:4317", True, "dns:///c:4317", True),
    ],
)
def test_the_scheme_of_an_endpoint_decides_what_is_encrypted(endpoint, insecure, address, plain):
    target = OtlpTarget(endpoint, insecure=insecure)
    assert (target.address, target.is_plain) == (address, plain)


CALLED = TraceContext(3, 4, sampled=True)
UNSAMPLED = TraceContext(3, 4, sampled=False)


@pytest.mark.parametrize(
    ("sampler", "root", "below_sampled", "below_unsampled"),
    [
        ("", True, True, False),
        ("always_on", True, True, True),
        ("always_off", False, False, False),
        ("parentbased_always_on", True, True, False),
        ("PARENTBASED_ALWAYS_OFF", False, True, False),
    ],
)
def test_samplers_decide_as_opentelemetrys_do(sampler, root, below_sampled, below_unsampled):
    found = read_otel_environment({"OTEL_TRACES_SAMPLER": sampler}).sampler
    spans = Spans(enabled=True, rng=random.Random(1), now_ns=int, sampler=found)
    made = [spans.context(parent) for parent in (None, CALLED, UNSAMPLED)]
    assert [each.sampled for each in made] == [root, below_sampled, below_unsampled]
    for each in made:
        spans.end(Span("work", each, None, 1, 2, {}))
    assert [each.context for each in spans.take(9)] == [each for each in made if each.sampled]
    assert spans.finished == sum(each.sampled for each in made)


def test_a_ratio_samples_so_many_traces_by_the_low_half_of_their_ids():
    sampler = read_otel_environment(
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}
    ).sampler
    assert sampler == Sampler(0.25, parent_based=False)
    quarter = 1 << 62
    assert sampler.samples((7 << 64) + quarter - 1, UNSAMPLED)
    assert not sampler.samples(quarter, CALLED)


@pytest.mark.parametrize("argument", ["2", "-0.1", "nan", "half"])
def test_a_ratio_that_is_none_is_reported_and_all_are_sampled(argument):
    found = read_otel_environment(
        {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": argument}
    )
    assert found.sampler == Sampler(1.0)
    assert found.complaints == (
        f"OTEL_TRACES_SAMPLER_ARG={argument} is no number from 0 to 1; 1 is used",
    )
