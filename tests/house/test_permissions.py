"""Permissions: the page says what the code declares, and the cluster's name stands once."""

import ast

from tests.house.permissions_table import PAGE, page
from tests.house.test_house import ROOT


def test_the_table_of_permissions_is_what_the_code_declares():
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "run make docs"


def test_the_name_of_the_cluster_as_a_resource_stands_in_one_place():
    places = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "services").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value == "kafka-cluster"
    ]
    assert places == ["services/sharemesh/ports/authorizer.py"]
