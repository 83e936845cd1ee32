"""One thing has one name: classes, loggers, and files whose names say what is in them."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = (
    ROOT / "services" / "sharemesh",
    ROOT / "operator" / "sharemesh_operator",
    ROOT / "spark" / "sharemesh_spark",
)
BY_NAME_AND_BY_ID = {"TopicPartition"}  # of the admin client's results; everywhere else by topic id
SAYS_NOTHING = {"base", "common", "core", "helpers", "misc", "stuff", "tools", "util", "utils"}
SAYS_NOTHING |= {"landing", "many", "stage", "standin", "story", "tapped", "told", "words"}


@cache
def modules() -> dict[Path, ast.Module]:
    found = {}
    for room in PRODUCT:
        for path in sorted(room.rglob("*.py")):
            if not path.name.endswith("_pb2.py"):
                found[path] = ast.parse(path.read_text())
    return found


def test_no_class_name_stands_for_two_classes():
    places = defaultdict(list)
    for path, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert set(twice) == BY_NAME_AND_BY_ID, twice


def test_a_module_calls_its_logger_log():
    others = []
    for path, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(
                "logging.getLogger("
            ):
                names = [ast.unparse(target) for target in node.targets]
                if names != ["_log"]:
                    others.append(f"{path.relative_to(ROOT)}: {names}")
    assert not others


def test_file_names_say_what_is_in_them():
    others = [path for top in ("tests", "deploy") for path in (ROOT / top).rglob("*.py")]
    nothing = [
        str(path.relative_to(ROOT))
        for path in (*modules(), *others)
        if path.stem.removeprefix("test_") in SAYS_NOTHING
    ]
    assert nothing == ["tests/bench/core.py"], "the part that `make bench PART=core` names"


def test_a_test_file_is_named_by_its_subject_and_not_by_a_letter():
    lettered = [
        path.name
        for path in (ROOT / "tests").rglob("test_*.py")
        if len(path.stem.split("_")[1]) == 1
    ]
    assert not lettered
