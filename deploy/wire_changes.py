"""`python -m deploy.wire_changes`: refuses changes of the wire that are not additions.

It compares the protos with the descriptors of the last release in protos/released. A release adds
its own: `python -m deploy.wire_changes --release 0.2.0`.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)

from deploy.descriptors import PROTOS, compiled

RELEASED = PROTOS / "released"
_ADDITIONS = {("singular", "optional")}
"""Of labels: who does not know of presence reads an absent number as 0, as it did before."""


def last_release(released: Path = RELEASED) -> tuple[str, FileDescriptorSet]:
    """Return the version of the last release and its descriptors."""
    found = {path.stem: path for path in released.glob("*.bin")}
    version = max(found, key=lambda each: tuple(map(int, each.split("."))))
    return version, FileDescriptorSet.FromString(found[version].read_bytes())


def breaking_changes(before: FileDescriptorSet, now: FileDescriptorSet) -> list[str]:
    """Return the incompatible changes for old clients and stored records, one sentence each."""
    changes: list[str] = []
    messages = _messages(now)
    for name, message in _messages(before).items():
        if name in messages:
            changes += _fields_changed(name, message, messages[name])
        else:
            changes.append(f"message {name} is removed")
    enums = _enums(now)
    for name, enum in _enums(before).items():
        if name in enums:
            changes += _values_changed(name, enum, enums[name])
        else:
            changes.append(f"enum {name} is removed")
    methods = _methods(now)
    for name, method in _methods(before).items():
        if name in methods:
            changes += _method_changed(name, method, methods[name])
        else:
            changes.append(f"method {name} is removed")
    return changes


def _fields_changed(name: str, before: DescriptorProto, now: DescriptorProto) -> Iterator[str]:
    numbers = {each.number: each for each in now.field}
    names = {each.name: each for each in now.field}
    for old in before.field:
        what = f"field {name}.{old.name} = {old.number}"
        new = numbers.get(old.number)
        if old.name in names and names[old.name].number != old.number:
            yield f"{what} is renumbered to {names[old.name].number}"
        elif new is None:
            yield f"{what} is removed"
        elif new.name != old.name:
            yield f"{what} is renamed to {new.name}"
        else:
            yield from _field_changed(what, (before, old), (now, new))


def _field_changed(
    what: str,
    before: tuple[DescriptorProto, FieldDescriptorProto],
    now: tuple[DescriptorProto, FieldDescriptorProto],
) -> Iterator[str]:
    for word, of in (("type", _type_of), ("label", _label_of), ("oneof", _oneof_of)):
        old, new = of(*before), of(*now)
        if old != new and (old, new) not in _ADDITIONS:
            yield f"the {word} of {what} is changed from {old} to {new}"


def _type_of(_: DescriptorProto, field: FieldDescriptorProto) -> str:
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    return field.type_name.removeprefix(".") or kind


def _label_of(_: DescriptorProto, field: FieldDescriptorProto) -> str:
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return "repeated"
    return "optional" if field.proto3_optional else "singular"


def _oneof_of(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    if field.proto3_optional or not field.HasField("oneof_index"):
        return "none"
    return message.oneof_decl[field.oneof_index].name


def _values_changed(
    name: str, before: EnumDescriptorProto, now: EnumDescriptorProto
) -> Iterator[str]:
    numbers = {each.number: each.name for each in now.value}
    names = {each.name: each.number for each in now.value}
    for old in before.value:
        what = f"value {name}.{old.name} = {old.number}"
        if names.get(old.name, old.number) != old.number:
            yield f"{what} is renumbered to {names[old.name]}"
        elif old.number not in numbers:
            yield f"{what} is removed"
        elif old.name not in names:
            yield f"{what} is renamed to {numbers[old.number]}"


def _method_changed(
    name: str, before: MethodDescriptorProto, now: MethodDescriptorProto
) -> Iterator[str]:
    for word, old, new in (
        ("request", before.input_type, now.input_type),
        ("response", before.output_type, now.output_type),
    ):
        if old != new:
            change = f"from {old.removeprefix('.')} to {new.removeprefix('.')}"
            yield f"the {word} of method {name} is changed {change}"
    for word, was, streams in (
        ("client", before.client_streaming, now.client_streaming),
        ("server", before.server_streaming, now.server_streaming),
    ):
        if was != streams:
            yield f"method {name} {'has become' if streams else 'is no longer'} {word} streaming"


def _messages(files: FileDescriptorSet) -> dict[str, DescriptorProto]:
    """Return all messages by full name, those inside others too."""
    found: dict[str, DescriptorProto] = {}
    waiting = [(file.package, each) for file in files.file for each in file.message_type]
    while waiting:
        outer, message = waiting.pop()
        name = f"{outer}.{message.name}"
        found[name] = message
        waiting += [(name, each) for each in message.nested_type]
    return dict(sorted(found.items()))


def _enums(files: FileDescriptorSet) -> dict[str, EnumDescriptorProto]:
    found = {f"{file.package}.{each.name}": each for file in files.file for each in file.enum_type}
    for name, message in _messages(files).items():
        found |= {f"{name}.{each.name}": each for each in message.enum_type}
    return found


def _methods(files: FileDescriptorSet) -> dict[str, MethodDescriptorProto]:
    return {
        f"{file.package}.{service.name}/{method.name}": method
        for file in files.file
        for service in file.service
        for method in service.method
    }


def main(arguments: list[str] | None = None, *, released: Path = RELEASED) -> int:
    """Compare, or keep the descriptors of a release; exit 1 on a change that breaks the wire."""
    parser = argparse.ArgumentParser(prog="python -m deploy.wire_changes")
    parser.add_argument("--release", metavar="VERSION", help="keep the descriptors of a release")
    asked = parser.parse_args(arguments)
    now = compiled()
    version, before = last_release(released)
    changes = breaking_changes(before, now)
    for change in changes:
        print(f"protos: {change} since {version}: take it back, or add a new one beside it")
    if asked.release and not changes:
        (released / f"{asked.release}.bin").write_bytes(now.SerializeToString(deterministic=True))
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
