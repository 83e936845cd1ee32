"""Links from the ids of rules, such as LK-6, to where docs/spec defines them."""

import posixpath
import re
from functools import cache

from deploy.pages import DOCS

SPEC = DOCS / "spec"

_DEFINITION = re.compile(r"^### ([A-Z]{2,4}-\d+)\b", re.MULTILINE)
_RULE = re.compile(r"(?<![\w/#-])[A-Z]{2,4}-\d+(?![\w-])")
_NOT_TEXT = re.compile(
    r"(^ *```.*?^ *```$|`+[^`\n]+`+|\[[^\]\[]*\]\([^)]*\)|^#[^\n]*$)",
    re.MULTILINE | re.DOTALL,
)
"""Code, links and headings: nothing is linked there."""


@cache
def places() -> dict[str, str]:
    """Return the page and the anchor of each rule."""
    return {
        rule: f"docs/spec/{source.name}#{rule.lower()}"
        for source in sorted(SPEC.glob("*.md"))
        for rule in _DEFINITION.findall(source.read_text(encoding="utf-8"))
    }


def linked(text: str, page: str) -> str:
    """Return the text of a page, named by its path in the repository, with links to rules."""
    here = places()

    def link(match: re.Match[str]) -> str:
        place = here.get(match[0])
        if place is None:
            return match[0]
        file, _, anchor = place.partition("#")
        where = "" if file == page else posixpath.relpath(file, posixpath.dirname(page))
        return f"[{match[0]}]({where}#{anchor})"

    parts = _NOT_TEXT.split(text)
    return "".join(part if n % 2 else _RULE.sub(link, part) for n, part in enumerate(parts))
