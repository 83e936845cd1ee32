"""The wire changes by addition only: each other kind of change is refused, by name."""

from pathlib import Path

import pytest

from deploy.descriptors import compiled
from deploy.wire_changes import breaking_changes, last_release, main

PROTO = """
syntax = "proto3";
package plant.v1;

service Plants {
  rpc Water(Request) returns (Response);
  rpc Watch(stream Request) returns (stream Response);
}

enum Kind {
  KIND_TREE = 0;
  KIND_HERB = 1;
}

message Request {
  enum Mode {
    MODE_SLOW = 0;
  }
  message Inner {
    int32 depth = 1;
  }
  int32 count = 1;
  repeated string names = 2;
  optional int64 limit = 3;
  Inner inner = 4;
  oneof place {
    string room = 5;
    string garden = 6;
  }
  string note = 7;
  map<string, int32> ages = 8;
}

message Response {
  int32 error_code = 1;
}
"""

REFUSED = {
    "a removed field": (
        "  string note = 7;\n",
        "",
        "field plant.v1.Request.note = 7 is removed",
    ),
    "a removed field whose number is reserved": (
        "  string note = 7;\n",
        "  reserved 7;\n",
        "field plant.v1.Request.note = 7 is removed",
    ),
    "a renumbered field": (
        "string note = 7;",
        "string note = 9;",
        "field plant.v1.Request.note = 7 is renumbered to 9",
    ),
    "a renamed field": (
        "string note = 7;",
        "string remark = 7;",
        "field plant.v1.Request.note = 7 is renamed to remark",
    ),
    "another type": (
        "int32 count = 1;",
        "int64 count = 1;",
        "the type of field plant.v1.Request.count = 1 is changed from int32 to int64",
    ),
    "another message type": (
        "Inner inner = 4;",
        "Response inner = 4;",
        "the type of field plant.v1.Request.inner = 4 is changed from plant.v1.Request.Inner to "
        "plant.v1.Response",
    ),
    "another type of a map's value": (
        "map<string, int32> ages",
        "map<string, string> ages",
        "the type of field plant.v1.Request.AgesEntry.value = 2 is changed from int32 to string",
    ),
    "a list of what was single": (
        "string note = 7;",
        "repeated string note = 7;",
        "the label of field plant.v1.Request.note = 7 is changed from singular to repeated",
    ),
    "one of what was a list": (
        "repeated string names",
        "string names",
        "the label of field plant.v1.Request.names = 2 is changed from repeated to singular",
    ),
    "lost presence": (
        "optional int64 limit",
        "int64 limit",
        "the label of field plant.v1.Request.limit = 3 is changed from optional to singular",
    ),
    "a field that leaves its oneof": (
        "    string garden = 6;\n  }\n",
        "  }\n  string garden = 6;\n",
        "the oneof of field plant.v1.Request.garden = 6 is changed from place to none",
    ),
    "a removed message": (
        "Response",
        "Reply",
        "message plant.v1.Response is removed",
    ),
    "a removed message inside another": (
        "Inner",
        "Deep",
        "message plant.v1.Request.Inner is removed",
    ),
    "a removed enum": (
        "  enum Mode {\n    MODE_SLOW = 0;\n  }\n",
        "",
        "enum plant.v1.Request.Mode is removed",
    ),
    "a removed enum value": (
        "  KIND_HERB = 1;\n",
        "",
        "value plant.v1.Kind.KIND_HERB = 1 is removed",
    ),
    "a renumbered enum value": (
        "KIND_HERB = 1;",
        "KIND_HERB = 2;",
        "value plant.v1.Kind.KIND_HERB = 1 is renumbered to 2",
    ),
    "a renamed enum value": (
        "KIND_HERB = 1;",
        "KIND_BUSH = 1;",
        "value plant.v1.Kind.KIND_HERB = 1 is renamed to KIND_BUSH",
    ),
    "a removed method": (
        "  rpc Water(Request) returns (Response);\n",
        "",
        "method plant.v1.Plants/Water is removed",
    ),
    "a removed service": (
        "service Plants",
        "service Trees",
        "method plant.v1.Plants/Watch is removed",
    ),
    "another request": (
        "Water(Request)",
        "Water(Response)",
        "the request of method plant.v1.Plants/Water is changed from plant.v1.Request to "
        "plant.v1.Response",
    ),
    "another response": (
        "Water(Request) returns (Response)",
        "Water(Request) returns (Request)",
        "the response of method plant.v1.Plants/Water is changed from plant.v1.Response to "
        "plant.v1.Request",
    ),
    "a stream that is none any more": (
        "returns (stream Response)",
        "returns (Response)",
        "method plant.v1.Plants/Watch is no longer server streaming",
    ),
    "a call that has become a stream": (
        "Water(Request)",
        "Water(stream Request)",
        "method plant.v1.Plants/Water has become client streaming",
    ),
    "another package": (
        "package plant.v1",
        "package plant.v2",
        "message plant.v1.Request is removed",
    ),
}

ALLOWED = {
    "a field": ("  string note = 7;\n", "  string note = 7;\n  string more = 9;\n"),
    "a field of a oneof": ("string garden = 6;", "string garden = 6;\n    string roof = 9;"),
    "presence": ("string note = 7;", "optional string note = 7;"),
    "a message": ("message Response", "message Other {}\n\nmessage Response"),
    "an enum value": ("KIND_HERB = 1;", "KIND_HERB = 1;\n  KIND_BUSH = 2;"),
    "a method": ("service Plants {", "service Plants {\n  rpc Cut(Request) returns (Response);"),
    "a service": ("enum Kind", "service Trees {}\n\nenum Kind"),
    "another order, and comments": (
        "int32 count = 1;\n  repeated string names = 2;",
        "// Names.\n  repeated string names = 2;\n  // How many.\n  int32 count = 1;",
    ),
}


def descriptors(folder: Path, text: str):
    folder.mkdir()
    (folder / "plants.proto").write_text(text)
    return compiled(folder)


@pytest.fixture
def changes(tmp_path):
    """What is refused of a proto in which one text is replaced by another."""

    def found(old: str, new: str) -> list[str]:
        assert old in PROTO
        before = descriptors(tmp_path / "before", PROTO)
        return breaking_changes(before, descriptors(tmp_path / "now", PROTO.replace(old, new)))

    return found


@pytest.mark.parametrize("plant", REFUSED)
def test_a_change_that_is_no_addition_is_refused(plant, changes):
    old, new, said = REFUSED[plant]
    assert said in changes(old, new)


@pytest.mark.parametrize("plant", ALLOWED)
def test_an_addition_is_allowed(plant, changes):
    assert changes(*ALLOWED[plant]) == []


def test_the_protos_only_add_to_the_last_release():
    version, before = last_release()
    assert breaking_changes(before, compiled()) == [], f"since {version}"


def test_the_last_release_is_the_highest_version(tmp_path):
    for version in ("0.9.0", "0.10.0", "0.2.11"):
        (tmp_path / f"{version}.bin").write_bytes(b"")
    assert last_release(tmp_path)[0] == "0.10.0"


def test_a_release_holds_every_service_of_its_version():
    _, before = last_release()
    services = {service.name for file in before.file for service in file.service}
    assert services >= {"Admin", "GroupCoordinator", "RecordLog", "ShareCoordinator", "ShareLeader"}


def test_the_command_says_what_is_wrong_and_keeps_no_release_that_breaks_the_wire(tmp_path, capsys):
    _, before = last_release()
    next(each for file in before.file for each in file.service).method.add(name="Gone")
    (tmp_path / "9.0.0.bin").write_bytes(before.SerializeToString())
    assert main(["--release", "9.1.0"], released=tmp_path) == 1
    assert "/Gone is removed since 9.0.0: take it back" in capsys.readouterr().out
    assert not (tmp_path / "9.1.0.bin").exists()


def test_a_release_keeps_its_descriptors(tmp_path):
    _, before = last_release()
    (tmp_path / "0.1.0.bin").write_bytes(before.SerializeToString())
    assert main(["--release", "0.2.0"], released=tmp_path) == 0
    version, kept = last_release(tmp_path)
    assert (version, kept) == ("0.2.0", compiled())
