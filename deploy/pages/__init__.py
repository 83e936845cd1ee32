"""Pages and pictures below docs/ that are made from code: each module has PAGE and ``page()``."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"


def with_section(page: Path, name: str, section: str) -> str:
    """Return a page with a new text between the two comments that name a section."""
    begin, end = f"<!-- {name}: written by make docs -->\n", f"<!-- end of {name} -->\n"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    return before + begin + section + end + rest.split(end)[1]
