"""Every message and version that is spoken, beside a second encoder of Kafka's own schemas.

What ``kio`` writes must be read by kafka-python and written back as the same bytes, and read by
``kio`` as what it was.
"""

import io
import warnings
from dataclasses import MISSING, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from sharemesh.kafka.versions import KafkaRequest

pytestmark = pytest.mark.slow

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its own files so
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl

ROOMS = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
)
WHOLE = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
SIMPLE = {
    **{name: st.integers(*bounds) for name, bounds in WHOLE.items()},
    "string": st.text(st.characters(codec="utf-8"), max_size=8),
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=20),
    "bool": st.booleans(),
    "uuid": st.uuids() | st.none(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": st.integers(0, 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(0, 2**40).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 2**41).map(
        lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    ),
}


def entities(cls):
    """Return a strategy for an entity of kio; tagged fields may be left at their defaults."""
    hints = get_type_hints(cls)
    required, optional = {}, {}
    for each in fields(cls):
        strategy = values(hints[each.name], each.metadata.get("kafka_type"))
        tagged = "tag" in each.metadata and each.default is not MISSING
        (optional if tagged else required)[each.name] = strategy
    return st.fixed_dictionaries(required, optional=optional).map(lambda found: cls(**found))


def values(hint, kafka_type):
    nullable = NoneType in get_args(hint)
    inner = next((each for each in get_args(hint) if each is not NoneType), hint)
    hint = inner if nullable else hint
    if get_origin(hint) is tuple:
        found = st.lists(values(get_args(hint)[0], kafka_type), max_size=2).map(tuple)
    elif is_dataclass(hint):
        found = entities(hint)
    else:
        found = SIMPLE[kafka_type]
    return found | st.none() if nullable and kafka_type != "uuid" else found


def other(name):
    """Return kafka-python's class of a message."""
    return next(getattr(room, name) for room in ROOMS if hasattr(room, name))


MESSAGES = [
    pytest.param(load(request.key, version), version, id=f"{request.label}-{version}-{kind}")
    for request in KafkaRequest
    for version in range(request.lowest, request.highest + 1)
    for kind, load in (("request", load_request_schema), ("response", load_response_schema))
]


@pytest.mark.parametrize(("cls", "version"), MESSAGES)
def test_two_encoders_agree(cls, version):
    theirs = other(cls.__name__)
    write, read = entity_writer(cls), entity_reader(cls)

    @settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
    @given(entities(cls))
    def agree(entity):
        if cls.__name__ == "ApiVersionsResponse" and version:
            # kafka-python reads one with an error as version 0, whatever was asked.
            entity = replace(entity, error_code=ErrorCode.none)
        out = io.BytesIO()
        write(out, entity)
        data = out.getvalue()
        assert read(data, 0) == (entity, len(data))
        read_back = theirs.decode(data, version=version)
        read_back._header = None  # it has one only if it was made with it
        assert bytes(read_back.encode(version=version)) == data

    agree()
