"""The pictures of the documentation are what their scripts draw, and load nothing."""

import html
import re

import pytest

from deploy.pages import architecture_picture, cli_picture

NAMESPACE = "http://www.w3.org/2000/svg"
PICTURES = (architecture_picture.PAGE, cli_picture.PAGE)


def test_the_terminal_shows_the_commands_of_the_script():
    """Only the commands: answers have times and member ids."""
    drawn = cli_picture.PAGE.read_text(encoding="utf-8")
    rows: dict[str, str] = {}
    for height, text in re.findall(r'<text [^>]*y="([\d.]+)"[^>]*>([^<]*)</text>', drawn):
        rows[height] = rows.get(height, "") + html.unescape(text).replace("\xa0", " ")
    typed = [row.removeprefix("$ ").rstrip() for row in rows.values() if row.startswith("$ ")]
    assert typed == list(cli_picture.COMMANDS), "run python -m deploy.pages.cli_picture"
    assert len(rows) > 2 * len(typed)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_loads_nothing_and_says_what_it_shows(picture):
    drawn = picture.read_text(encoding="utf-8")
    assert "://" not in drawn.replace(NAMESPACE, "")
    assert "@import" not in drawn
    assert "aria-label" in drawn
