"""Control characters: found, escaped as JSON does, and refused (spec BND-24)."""

import json

import pytest

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.printable import check_printable, escaped

CONTROLS = [
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *map(chr, range(0x2028, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
]


@pytest.mark.parametrize("control", CONTROLS, ids=lambda each: f"{ord(each):04x}")
def test_each_control_character_is_escaped_and_refused(control):
    assert escaped(f"a{control}b") == f"a\\u{ord(control):04x}b"
    with pytest.raises(RefusedError) as refused:
        check_printable("group id", f"a{control}b", ErrorCode.INVALID_GROUP_ID)
    assert refused.value.error is ErrorCode.INVALID_GROUP_ID
    assert f"\\u{ord(control):04x} at position 1" in refused.value.message
    assert control not in refused.value.message


@pytest.mark.parametrize("text", ["", "orders", "a b\\c", "bestellungen-ü", "注文", "טקסט", "👍🏽"])
def test_other_text_stays_as_it_is(text):
    assert escaped(text) == text
    check_printable("group id", text)


def test_escaped_json_means_the_same():
    thing = {"group": "".join(CONTROLS), "ü": ["\\", '"']}
    line = escaped(json.dumps(thing, ensure_ascii=False))
    assert json.loads(line) == thing
    assert line == escaped(line)
