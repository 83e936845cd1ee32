"""Producers' contexts are found in batches as they lie in the log, and only sampled ones."""

from sharemesh.codec.decoded_records import encode_records
from sharemesh.telemetry.trace_context import (
    LINKS_MAX,
    TraceContext,
    parsed,
    producer_contexts,
    sampled_contexts,
)
from sharemesh.v1.common_pb2 import DecodedRecord, Header


def traceparent(number: int, flags: str = "01") -> bytes:
    return f"00-{number:032x}-{number:016x}-{flags}".encode()


def batch(values, size=10) -> bytes:
    records = [
        DecodedRecord(
            value=b"v" * size,
            headers=[] if value is None else [Header(key="traceparent", value=value)],
        )
        for value in values
    ]
    return encode_records(records, default_timestamp_ms=1)


def test_sampled_contexts_are_found_in_order() -> None:
    found = producer_contexts(batch([traceparent(1), None, traceparent(2, "00"), traceparent(3)]))
    assert found == [TraceContext(1, 1), TraceContext(3, 3)]


def test_batches_without_headers_have_none() -> None:
    assert producer_contexts(batch([None] * 50, size=1_000)) == []
    assert producer_contexts(b"") == []


def test_large_records_are_found_by_the_end_of_the_batch() -> None:
    found = producer_contexts(batch([traceparent(n) for n in (1, 2, 3)], size=10_000))
    assert [each.trace_id for each in found] == [1, 2, 3]


def test_links_are_bounded() -> None:
    assert len(producer_contexts(batch([traceparent(n + 1) for n in range(200)]))) == LINKS_MAX
    contexts, dropped = sampled_contexts([traceparent(n + 1) for n in range(40)])
    assert (len(contexts), dropped) == (LINKS_MAX, 40 - LINKS_MAX)


def test_malformed_contexts_are_no_links() -> None:
    good = traceparent(7)
    assert parsed(good) == TraceContext(7, 7)
    assert parsed(good).traceparent().encode() == good
    wrong = (b"", good[:-1], good.replace(b"-", b"_"), b"ff" + good[2:], traceparent(0), b"x" * 55)
    assert [parsed(value) for value in wrong] == [None] * len(wrong)
