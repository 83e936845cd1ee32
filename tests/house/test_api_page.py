"""The API reference says what the docstrings say."""

from importlib.resources import files

from sharemesh import client
from tests.house.api_page import PAGE, page


def test_the_page_is_what_the_docstrings_say():
    written = PAGE.read_text(encoding="utf-8")
    assert written == page(), "run make docs"


def test_everything_that_applications_import_is_there():
    text = page()
    assert not [name for name in client.__all__ if f"### `{name}" not in text]


def test_the_package_says_that_it_is_typed():
    assert files("sharemesh").joinpath("py.typed").is_file()
