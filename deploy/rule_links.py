"""Links from the ids of rules, such as LK-6, to where docs/spec defines them."""

import posixpath
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "docs" / "spec"

_DEFINITION = re.compile(r"^(### |- \*\*)([A-Z]{2,4}-\d+)\b", re.MULTILINE)
_RULE = re.compile(r"(?<![\w/#-])[A-Z]{2,4}-\d+(?![\w-])")
_NOT_TEXT = re.compile(
    r"(^ *```.*?^ *```$|`+[^`\n]+`+|\[[^\]\[]*\]\([^)]*\)|^#[^\n]*$|^- \*\*[A-Z]+-\d+\*\*)",
    re.MULTILINE | re.DOTALL,
)
"""Code, links, headings, and where a rule is defined: nothing is linked there."""


@cache
def places() -> dict[str, str]:
    """Return the page, with an anchor if the rule is a heading of it, of each rule."""
    found = {}
    for source in sorted(SPEC.glob("*.md")):
        for mark, rule in _DEFINITION.findall(source.read_text(encoding="utf-8")):
            anchor = f"#{rule.lower()}" if mark.startswith("#") else ""
            found[rule] = f"docs/spec/{source.name}{anchor}"
    return found


def linked(text: str, page: str) -> str:
    """Return the text of a page, named by its path in the repository, with links to rules."""
    here = places()

    def link(match: re.Match[str]) -> str:
        place = here.get(match[0])
        if place is None:
            return match[0]
        file, hash_, anchor = place.partition("#")
        if file == page:
            return f"[{match[0]}](#{anchor})" if anchor else match[0]
        return f"[{match[0]}]({posixpath.relpath(file, posixpath.dirname(page))}{hash_}{anchor})"

    parts = _NOT_TEXT.split(text)
    return "".join(part if n % 2 else _RULE.sub(link, part) for n, part in enumerate(parts))
