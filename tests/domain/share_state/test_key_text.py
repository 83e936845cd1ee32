"""Key texts and their shards (spec SC-1, SC-2)."""

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import (
    GroupId,
    SharePartitionKey,
    TopicId,
    format_key,
    home_shard,
    parse_key,
    string_hash,
)

TOPIC = TopicId(uuid.UUID("12345678-1234-5678-1234-567812345678").bytes)
TEXT = base64.urlsafe_b64encode(TOPIC).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("text", "group", "partition"),
    [
        (f"abc:de:{TEXT}:0", "abc:de", 0),
        (f"a:b:c:d:{TEXT}:5", "a:b:c:d", 5),
        (f":mygroup:{TEXT}:2", ":mygroup", 2),
        (f"mygroup::{TEXT}:4", "mygroup:", 4),
    ],
)
def test_the_group_is_what_is_left_when_parsed_from_the_right(text, group, partition):
    key = parse_key(text)
    assert key == SharePartitionKey(GroupId(group), TOPIC, partition)
    assert format_key(key) == text


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "onlytwo:parts",
        f":{TEXT}:0",
        f"{TEXT}:0",
        "g:not-a-uuid:0",
        f"g:{TEXT}A:0",
        f"g:{TEXT[:-1]}*:0",
        f"g:{TEXT}:x",
        f"g:{TEXT}:",
        f"g:{TEXT}:-1",
        f"g:{TEXT}:1_0",
        f"g:{TEXT}: 1",
        f"g:{TEXT}:²",
        f"g:{TEXT}:2147483648",
    ],
)
def test_other_forms_are_rejected(text):
    with pytest.raises(RefusedError) as refused:
        parse_key(text)
    assert refused.value.error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("The quick brown fox jumps over the lazy dog", -609428141),
        ("\U0001f600", 1772899),
    ],
)
def test_the_hash_is_javas(text, hashed):
    assert string_hash(text) == hashed


def test_the_most_negative_hash_lives_in_shard_0():
    assert home_shard("polygenelubricants", 50) == 0
    assert home_shard("hello", 50) == 99162322 % 50
    assert home_shard("The quick brown fox jumps over the lazy dog", 50) == 609428141 % 50


@given(st.text())
def test_the_hash_is_the_sum_over_utf16_units(text):
    expected = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        expected = (31 * expected + int.from_bytes(raw[at : at + 2], "big")) % 2**32
    assert string_hash(text) % 2**32 == expected


@given(st.text(min_size=1), st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1))
def test_every_key_survives_its_text(group, topic, partition):
    key = SharePartitionKey(GroupId(group), TopicId(topic), partition)
    assert parse_key(format_key(key)) == key
