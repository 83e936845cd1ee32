"""Producers' trace contexts in record batches, found without decoding a record."""

from sharemesh.telemetry.trace_context import LINKS_MAX, TraceContext, sampled_contexts

PROBE_BYTES = 2_048
"""Looked through at both ends first: headers end a record, and producers that trace send them
with every record. A look through everything costs 2 us for each KiB, as much as the delivery."""

SCAN_BYTES_MAX = 1 << 18
"""Bytes looked through for one acquisition, once the probe has found something."""

_KEY = b"\x16traceparent\x6e00-"
"""A record header's key and value lengths as varints (11 and 55), the key, version 00."""
_VALUE_AT = len(_KEY) - 3
_VALUE_LENGTH = 55


def producer_contexts(records: bytes) -> list[TraceContext]:
    """Return sampled contexts in the headers of uncompressed records, at most ``LINKS_MAX``.

    Compressed batches have none: the leader does not open them (DESIGN 5); consumers do.
    """
    if _KEY not in records[:PROBE_BYTES] and _KEY not in records[-PROBE_BYTES:]:
        return []
    values: list[bytes] = []
    position = records.find(_KEY, 0, SCAN_BYTES_MAX)
    while position >= 0 and len(values) < LINKS_MAX * 4:
        start = position + _VALUE_AT
        values.append(records[start : start + _VALUE_LENGTH])
        position = records.find(_KEY, start, SCAN_BYTES_MAX)
    return sampled_contexts(values)[0] if values else []
