"""docs/reference/grpc.md: methods and messages, from the comments in the protos."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
)

from deploy.descriptors import (
    Comments,
    Enum,
    Message,
    compiled,
    enums_of,
    messages_of,
    method_path,
    service_path,
)
from deploy.pages import REFERENCE, ROOT
from deploy.pages.rule_links import linked
from sharemesh.methods import METHODS, StreamingKind

PAGE = REFERENCE / "grpc.md"
CELL_CHARS_MAX = 160
"""A message with a longer meaning is a list: a table of such cells is hard to read."""

SHARED = "Shared messages"
ORDER = (
    ("share_leader", ""),
    ("group_coordinator", ""),
    ("record_log", ""),
    ("admin", ""),
    ("share_coordinator", ""),
    ("common", SHARED),
    ("carried_calls", "Carried calls"),
    ("state_record", "Records of the share state log"),
    ("group_record", "Records of the group log"),
)
"""Files in the order of the page, and the titles of those without a service."""

HEAD = """# gRPC reference

This page is made from the comments in `protos/sharemesh/v1`: `make docs` writes it, and a test
fails when it does not fit. The package is `sharemesh.v1`; every process answers server reflection.
[A session with grpcurl](../guides/grpcurl.md) shows it by hand; see also
[requests and errors](../spec/wire.md) and [limits](limits.md).

The deadline of a method is the one that the Python client sets. A request that is larger than its
method takes, or that has more messages inside each other, is refused with RESOURCE_EXHAUSTED
before it is parsed.
"""

_SCALARS = {
    FieldDescriptorProto.TYPE_DOUBLE: "double",
    FieldDescriptorProto.TYPE_INT32: "int32",
    FieldDescriptorProto.TYPE_INT64: "int64",
    FieldDescriptorProto.TYPE_UINT64: "uint64",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_STRING: "string",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
}
_PACKAGE = ".sharemesh.v1."
_DOCS_PAGE = re.compile(r"\bdocs/([\w./-]+\.md)")
_MIB = 1024 * 1024


def page() -> str:
    """Return the whole page."""
    files = {Path(each.name).stem: each for each in compiled(comments=True).file}
    conventions = _paragraphs(Comments(files["common"]).of_file())
    lines = [HEAD, "## Conventions", "", *_linked(conventions)]
    for stem, title in ORDER:
        lines += _linked(_section(files.pop(stem), title))
    if files:
        raise ValueError(f"name the place of {', '.join(files)} on the page: ORDER")
    return "\n".join(lines).rstrip() + "\n"


def _section(file: FileDescriptorProto, title: str) -> Iterator[str]:
    comments = Comments(file)
    for number, service in enumerate(file.service):
        yield f"## {service.name}"
        yield ""
        yield from _paragraphs(comments.of_file())
        yield from _paragraphs(comments.of(service_path(number)))
        for index, method in enumerate(service.method):
            comment = comments.of(method_path(number, index))
            yield from _method(service.name, method, comment)
    if title:
        yield f"## {title}"
        yield ""
        if title != SHARED:  # its comment has the conventions
            yield from _paragraphs(comments.of_file())
    for message in messages_of(file):
        yield from _message(message, comments)
    for enum in enums_of(file):
        yield from _enum(enum, comments)


def _method(service: str, method: MethodDescriptorProto, comment: str) -> Iterator[str]:
    [about] = [each for each in METHODS if each.name == f"{service}/{method.name}"]
    deadline = (
        f"deadline {about.deadline_ms // 1_000} s; " if about.kind is StreamingKind.UNARY else ""
    )
    yield f"### {method.name}"
    yield ""
    yield from _paragraphs(comment)
    yield (
        f"{_streamed(method.input_type, streams=method.client_streaming)} → "
        f"{_streamed(method.output_type, streams=method.server_streaming)}; {deadline}"
        f"request of at most {about.request_bytes_max // _MIB} MiB and "
        f"{about.request_parts_max:,} messages inside each other"
    )
    yield ""


def _streamed(type_name: str, *, streams: bool) -> str:
    return f"{'stream of ' if streams else ''}{_link_to(type_name)}"


def _message(message: Message, comments: Comments) -> Iterator[str]:
    yield f"#### {message.name}"
    yield ""
    yield from _paragraphs(comments.of(message.path))
    for index, oneof in message.oneofs():
        yield from _paragraphs(f"One of `{oneof}`: {comments.of(message.oneof_path(index))}")
    rows = [
        (f"`{field.name}`", _type_of(message, field), comments.of(message.field_path(index)))
        for index, field in enumerate(message.descriptor.field)
    ]
    yield from _rows(("field", "type", "meaning"), rows)


def _enum(enum: Enum, comments: Comments) -> Iterator[str]:
    yield f"#### {enum.name}"
    yield ""
    yield from _paragraphs(comments.of(enum.path))
    rows = [
        (f"`{value.name}`", str(value.number), comments.of(enum.value_path(index)))
        for index, value in enumerate(enum.descriptor.value)
    ]
    yield from _rows(("value", "number", "meaning"), rows)


def _rows(head: tuple[str, str, str], rows: list[tuple[str, str, str]]) -> Iterator[str]:
    """Yield a table, or a list where a meaning is too long for a cell."""
    if not rows:
        return
    if any(len(meaning) > CELL_CHARS_MAX or "\n\n" in meaning for _, _, meaning in rows):
        for name, kind, meaning in rows:
            first, *others = _joined(meaning)
            yield f"- {name} ({kind}): {first}"
            yield from (f"    {line}".rstrip() for line in others)
            if others:
                yield ""
    else:
        yield f"| {' | '.join(head)} |"
        yield "|---|---|---|"
        for name, kind, meaning in rows:
            yield f"| {name} | {kind} | {' '.join(_joined(meaning)).replace('|', chr(92) + '|')} |"
    yield ""


def _type_of(message: Message, field: FieldDescriptorProto) -> str:
    entries = {each.name: each for each in message.descriptor.nested_type}
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None and entry.options.map_entry:
        key, value = (_name_of_type(each) for each in entry.field)
        return f"map of {key} to {value}"
    kind = _name_of_type(field)
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"list of {kind}"
    if field.HasField("oneof_index") and not field.proto3_optional:
        return f"{kind}, one of `{message.descriptor.oneof_decl[field.oneof_index].name}`"
    return f"optional {kind}" if field.proto3_optional else kind


def _name_of_type(field: FieldDescriptorProto) -> str:
    return _link_to(field.type_name) if field.type_name else _SCALARS[field.type]


def _link_to(type_name: str) -> str:
    name = type_name.removeprefix(_PACKAGE)
    return f"[{name}](#{name.replace('.', '').lower()})"


def _paragraphs(comment: str) -> Iterator[str]:
    if comment:
        yield from _joined(comment)
        yield ""


def _joined(comment: str) -> list[str]:
    """Return a comment with each paragraph, and each item of a list, on one line."""
    lines: list[str] = []
    for line in comment.splitlines():
        if not line or line.startswith("- ") or not lines or not lines[-1]:
            lines.append(line)
        else:
            lines[-1] += f" {line.strip()}"
    return lines


def _linked(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines with links to the rules and the pages that they name."""
    for line in lines:
        yield _DOCS_PAGE.sub(r"[\1](../\1)", linked(line, PAGE.relative_to(ROOT).as_posix()))
