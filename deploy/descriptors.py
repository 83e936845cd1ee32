"""The descriptors of the protos: compiled in memory, with or without comments."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_tools import protoc

ROOT = Path(__file__).parents[1]
PROTOS = ROOT / "protos"

# Numbers of fields in descriptor.proto: a comment is filed under the path that they make.
_SYNTAX, _MESSAGES, _ENUMS, _SERVICES = 12, 4, 5, 6
_METHODS, _FIELDS, _NESTED, _NESTED_ENUMS, _VALUES, _ONEOFS = 2, 2, 3, 4, 2, 8

SourcePath = tuple[int, ...]


class Element(NamedTuple):
    """One thing that has a comment; ``name`` is full, without the package."""

    kind: str
    name: str
    comment: str


def compiled(protos: Path = PROTOS, *, comments: bool = False) -> FileDescriptorSet:
    """Return the descriptors of all protos under a folder, by file name.

    Raises:
        ValueError: protoc refuses them; it says why on stderr.
    """
    names = sorted(path.relative_to(protos).as_posix() for path in protos.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "descriptors"
        options = [f"--proto_path={protos}", f"--descriptor_set_out={made}"]
        if comments:
            options.append("--include_source_info")
        if protoc.main(["protoc", *options, *names]) != 0:
            raise ValueError(f"protoc refuses the protos in {protos}")
        found = FileDescriptorSet.FromString(made.read_bytes())
    return FileDescriptorSet(file=sorted(found.file, key=lambda each: each.name))


class Comments:
    """The comments of one file, by the path of what they are about."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._found = {
            tuple(each.path): _unindented(each.leading_comments)
            for each in file.source_code_info.location
            if each.leading_comments
        }

    def of(self, path: SourcePath) -> str:
        """Return the comment that stands before something; empty if none does."""
        return self._found.get(path, "")

    def of_file(self) -> str:
        """Return the comment at the top of the file."""
        return self.of((_SYNTAX,))


class Message(NamedTuple):
    """A message with its full name, without the package, and its path."""

    name: str
    path: SourcePath
    descriptor: DescriptorProto

    def field_path(self, index: int) -> SourcePath:
        """Return the path of a field."""
        return (*self.path, _FIELDS, index)

    def oneof_path(self, index: int) -> SourcePath:
        """Return the path of a oneof."""
        return (*self.path, _ONEOFS, index)

    def oneofs(self) -> Iterator[tuple[int, str]]:
        """Yield the oneofs with their indexes; not those that ``optional`` makes."""
        presence = {each.oneof_index for each in self.descriptor.field if each.proto3_optional}
        for index, oneof in enumerate(self.descriptor.oneof_decl):
            if index not in presence:
                yield index, oneof.name


class Enum(NamedTuple):
    """An enum with its full name, without the package, and its path."""

    name: str
    path: SourcePath
    descriptor: EnumDescriptorProto

    def value_path(self, index: int) -> SourcePath:
        """Return the path of a value."""
        return (*self.path, _VALUES, index)


def service_path(index: int) -> SourcePath:
    """Return the path of a service."""
    return (_SERVICES, index)


def method_path(service: int, index: int) -> SourcePath:
    """Return the path of a method."""
    return (_SERVICES, service, _METHODS, index)


def messages_of(file: FileDescriptorProto) -> Iterator[Message]:
    """Yield the messages of a file, each before those inside it; not the entries of maps."""
    for index, message in enumerate(file.message_type):
        yield from _with_nested(Message(message.name, (_MESSAGES, index), message))


def enums_of(file: FileDescriptorProto) -> Iterator[Enum]:
    """Yield the enums of a file, those inside messages too."""
    for index, enum in enumerate(file.enum_type):
        yield Enum(enum.name, (_ENUMS, index), enum)
    for message in messages_of(file):
        for index, enum in enumerate(message.descriptor.enum_type):
            path = (*message.path, _NESTED_ENUMS, index)
            yield Enum(f"{message.name}.{enum.name}", path, enum)


def elements_of(file: FileDescriptorProto) -> Iterator[Element]:
    """Yield everything in a file that must have a comment."""
    comments = Comments(file)
    yield Element("file", file.name, comments.of_file())
    for number, service in enumerate(file.service):
        yield Element("service", service.name, comments.of(service_path(number)))
        for index, method in enumerate(service.method):
            name = f"{service.name}.{method.name}"
            yield Element("method", name, comments.of(method_path(number, index)))
    for message in messages_of(file):
        yield Element("message", message.name, comments.of(message.path))
        for index, field in enumerate(message.descriptor.field):
            name = f"{message.name}.{field.name}"
            yield Element("field", name, comments.of(message.field_path(index)))
        for index, oneof in message.oneofs():
            comment = comments.of(message.oneof_path(index))
            yield Element("oneof", f"{message.name}.{oneof}", comment)
    for enum in enums_of(file):
        yield Element("enum", enum.name, comments.of(enum.path))
        for index, value in enumerate(enum.descriptor.value):
            name = f"{enum.name}.{value.name}"
            yield Element("enum value", name, comments.of(enum.value_path(index)))


def _with_nested(message: Message) -> Iterator[Message]:
    yield message
    for index, nested in enumerate(message.descriptor.nested_type):
        if not nested.options.map_entry:
            path = (*message.path, _NESTED, index)
            yield from _with_nested(Message(f"{message.name}.{nested.name}", path, nested))


def _unindented(comment: str) -> str:
    return "\n".join(line.removeprefix(" ").rstrip() for line in comment.splitlines()).strip()
