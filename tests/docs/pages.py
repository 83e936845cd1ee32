"""Blocks of code of a page, and what the page shows of their output.

A block of `sh` or `python` is a step; a block of `text` right behind it is its output, where `…`
stands for any text, and alone in a line for any lines. A comment `<!-- walk: skip, WHY -->` before
a block says that it needs more than a local cluster: such a step is parsed, and not run.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(
    r"(?:^<!-- walk: skip, (?P<skip>[^\n]+) -->\n)?"
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
ANY = "…"


@dataclass(frozen=True, slots=True)
class Step:
    """One block of code of a page."""

    language: str
    code: str
    title: str
    """The file that the reader saves it as; empty: it is typed in."""
    skipped: str
    """Why it is not run; empty: it is."""
    output: str
    """What the page shows; empty: nothing."""
    line: int


def steps(text: str) -> list[Step]:
    """Return the steps of a page, in order."""
    found: list[Step] = []
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        language, code = match["language"], match["code"]
        if language == "text" and found and not found[-1].output:
            found[-1] = _with_output(found[-1], code)
        elif language in {"sh", "python"}:
            found.append(Step(language, code, match["title"] or "", match["skip"] or "", "", line))
    return found


def _with_output(step: Step, output: str) -> Step:
    return Step(step.language, step.code, step.title, step.skipped, output, step.line)


def fits(shown: str, real: str) -> bool:
    """Tell whether an output is the one that a page shows; blanks count as one."""
    pattern = ""
    for line in shown.splitlines():
        if line.strip() == ANY:
            pattern += r"(?:[^\n]*\n)*?"
        else:
            words = " ".join(line.split())
            pattern += re.escape(words).replace(ANY, r"[^\n]*") + r"\n"
    plain = "".join(f"{' '.join(line.split())}\n" for line in real.splitlines() if line.strip())
    return re.fullmatch(pattern, plain) is not None


def pages(root: Path) -> list[Path]:
    """Return README and all pages that are written by hand."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
