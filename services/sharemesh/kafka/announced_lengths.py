"""Whether the lists of a request can be as long as it says: kio reserves memory for them first.

A list of 2^35 entries in a request of 50 bytes would end the process, for memory that is not had.
Tagged fields that nobody here knows, which kio refuses, are cut out on the way (KIP-482).
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from sharemesh.kafka.messages import MalformedMessageError

ENTRIES_MAX = 100_000
"""Most entries of all lists of a request together but for lists of numbers, and tagged fields that
it says to have: each takes time."""

_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
_LENGTH_BYTES = {"string": 2, "bytes": 4, "records": 4}
_LIST_LENGTH_BYTES = 4

_Step = Callable[["_AnnouncedBody", int], int]
"""Returns where what begins at a position ends."""


class _AnnouncedBody:
    """The bytes of a request, and how many entries it may still have."""

    def __init__(self, body: memoryview) -> None:
        self.body = body
        self.entries_left = ENTRIES_MAX
        self.cuts: list[tuple[int, int, bytes]] = []  # from, to, and what stands there instead

    def number(self, at: int, size: int) -> tuple[int, int]:
        """Return a signed number of ``size`` bytes and where it ends."""
        end = at + size
        if end > len(self.body):
            raise MalformedMessageError("it ends within a length")
        return int.from_bytes(self.body[at:end], "big", signed=True), end

    def varint(self, at: int) -> tuple[int, int]:
        """Return a number of variable length and where it ends."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
        raise MalformedMessageError("a length takes more than five bytes")

    def spend(self, count: int) -> None:
        """Count entries; raises MalformedMessageError if there are too many."""
        self.entries_left -= count
        if self.entries_left < 0:
            raise MalformedMessageError(f"it has more than {ENTRIES_MAX} entries and tagged fields")

    def known(self) -> memoryview:
        """Return the bytes without what was cut out."""
        if not self.cuts:
            return self.body
        pieces: list[bytes | memoryview] = []
        at = 0
        for first, end, instead in sorted(self.cuts):
            pieces += (self.body[at:first], instead)
            at = end
        pieces.append(self.body[at:])
        return memoryview(b"".join(pieces))


def check_lengths(cls: Any, body: memoryview) -> memoryview:  # noqa: ANN401 - a class of kio
    """Return a request without tagged fields that are not known here.

    Refused is one whose lists are longer than it is, or null where only a list may be.

    Raises:
        MalformedMessageError: It is none.
    """
    request = _AnnouncedBody(body)
    try:
        _entity(cls)(request, 0)
    except IndexError as error:
        raise MalformedMessageError("it ends within a length") from error
    return request.known()


@cache
def _entity(cls: Any) -> _Step:  # noqa: ANN401 - a class of kio
    hints = get_type_hints(cls)
    flexible: bool = cls.__flexible__
    steps: list[_Step] = []
    tagged: dict[int, _Step] = {}
    plain = 0  # bytes of fields of a fixed size: a run of them is one step
    for each in fields(cls):
        if _is_plain(each, hints[each.name]):
            plain += _SIZES[each.metadata["kafka_type"]]
            continue
        if plain and "tag" not in each.metadata:
            steps.append(_behind(plain))
            plain = 0
        step = _field(hints[each.name], each.metadata.get("kafka_type"), flexible=flexible)
        if "tag" in each.metadata:
            tagged[each.metadata["tag"]] = step
        else:
            steps.append(step)
    if plain:
        steps.append(_behind(plain))

    def walk(request: _AnnouncedBody, at: int) -> int:
        for step in steps:
            at = step(request, at)
        return _behind_tags(request, at, tagged) if flexible else at

    return walk


def _is_plain(each: "Field[Any]", hint: object) -> bool:
    is_tagged, is_list = "tag" in each.metadata, get_origin(hint) is tuple
    return each.metadata.get("kafka_type") in _SIZES and not is_tagged and not is_list


def _behind(size: int) -> _Step:
    return lambda _, at: at + size


def _behind_tags(request: _AnnouncedBody, at: int, tagged: Mapping[int, _Step]) -> int:
    begin, cuts = at, len(request.cuts)
    count, at = request.varint(at)
    request.spend(count)
    behind_count, kept = at, 0
    for _ in range(count):
        first = at
        tag, at = request.varint(at)
        size, at = request.varint(at)
        end = at + size
        known = tagged.get(tag)
        if known is None:
            if end > len(request.body):
                raise MalformedMessageError("it ends within a tagged field")
            request.cuts.append((first, end, b""))
        else:
            kept += 1
            if kept > len(tagged):
                raise MalformedMessageError("it has a tagged field twice")
            before = len(request.cuts)
            if known(request, at) != end or len(request.cuts) > before:
                raise MalformedMessageError("a tagged field has another length than it says")
        at = end
    if len(request.cuts) > cuts:
        request.cuts.append((begin, behind_count, bytes((kept,))))
    return at


def _field(hint: Any, kind: str | None, *, flexible: bool) -> _Step:  # noqa: ANN401
    for each in (hint, *get_args(hint)):
        if get_origin(each) is tuple:
            item = get_args(each)[0]
            is_plain = kind in _SIZES
            step = _one(item, kind, flexible=flexible)
            return _list(step, is_plain=is_plain, may_be_null=each is not hint, flexible=flexible)
        if each is not hint and is_dataclass(each):
            return _entity_or_null(each)
    return _one(hint, kind, flexible=flexible)


def _one(hint: Any, kind: str | None, *, flexible: bool) -> _Step:  # noqa: ANN401
    if is_dataclass(hint):
        cls: Any = hint
        return _entity(cls)
    return _single(kind, flexible=flexible)


def _single(kind: str | None, *, flexible: bool) -> _Step:
    size = _SIZES.get(str(kind))
    if size is not None:
        return _behind(size)
    length_bytes = _LENGTH_BYTES[str(kind)]

    def walk(request: _AnnouncedBody, at: int) -> int:
        if flexible:
            length, at = request.varint(at)
            return at + max(length - 1, 0)
        length, at = request.number(at, length_bytes)
        return at + max(length, 0)

    return walk


def _entity_or_null(cls: Any) -> _Step:  # noqa: ANN401 - a class of kio
    step = _entity(cls)

    def walk(request: _AnnouncedBody, at: int) -> int:
        is_there, at = request.number(at, 1)
        return step(request, at) if is_there >= 0 else at

    return walk


def _list(step: _Step, *, is_plain: bool, may_be_null: bool, flexible: bool) -> _Step:
    def walk(request: _AnnouncedBody, at: int) -> int:
        if flexible:
            announced, at = request.varint(at)
            count = announced - 1
        else:
            count, at = request.number(at, _LIST_LENGTH_BYTES)
        if count == -1 and may_be_null:
            return at
        if not 0 <= count <= len(request.body) - at:
            raise MalformedMessageError(f"{count} entries of a list are not there")
        if is_plain:
            return step(request, 0) * count + at
        request.spend(count)
        for _ in range(count):
            at = step(request, at)
        return at

    return walk
