"""What the README names is there; `tests/docs/test_walk.py` runs its lines."""

import re
from dataclasses import fields
from pathlib import Path

from sharemesh.serve.settings.settings import UpSettings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def default_address() -> str:
    defaults = {field.name: field.default for field in fields(UpSettings)}
    return f"{defaults['host']}:{defaults['base_port']}"


def test_the_address_in_the_python_text_is_where_up_listens() -> None:
    addresses = re.findall(r"127\.0\.0\.1:\d+|localhost:\d+", README)
    assert set(addresses) == {default_address()}


def test_every_file_that_the_readme_names_is_there() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
