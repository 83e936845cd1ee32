"""The name of the cluster as a resource of access rules stands once."""

import ast

from tests.house.test_house import ROOT


def test_the_name_of_the_cluster_as_a_resource_stands_in_one_place():
    places = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "services").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value == "kafka-cluster"
    ]
    assert places == ["services/sharemesh/ports/authorizer.py"]
