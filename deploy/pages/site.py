"""Hooks of MkDocs: the site has what the pages link to, also outside of docs/, and links rules.

On the forge a page links to `../../examples/worker.py`, and README to `docs/spec`. On the site such
a file is published below `source/`, a folder becomes a page that lists it, and the pages of
`PUBLISHED` get a place of their own. A link to a file that does not exist stays as it is, and fails
the strict build.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from deploy.pages import ROOT
from deploy.pages.rule_links import linked

PUBLISHED = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "design/architecture.md",
    "CONTRIBUTING.md": "design/contributing.md",
    "SECURITY.md": "design/security-policy.md",
    "CHANGELOG.md": "reports/changelog.md",
}
"""Pages at the root of the repository, and where they are on the site."""

_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_ABSOLUTE = re.compile(r"[a-z]+:|/|#")


def on_config(config: Any) -> Any:
    """Put the pages of a folder in the place of its name in the navigation: README first."""
    config.nav = [_expanded(entry) for entry in config.nav]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root and everything that a page links to outside of docs/."""
    for path, uri in PUBLISHED.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    for target in sorted(_linked_targets() | set(_listed_folders(config.nav))):
        if (ROOT / target).is_dir():
            _add_folder(files, config, target)
        elif not _is_page(target):
            _add_file(files, config, target)
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    path = path_of(page.file.src_uri)
    folder = posixpath.dirname(page.file.src_uri)

    def leads_to(target: str) -> str:
        uri = uri_of(target)
        return uri and posixpath.relpath(uri, folder or ".")

    return _relinked(linked(markdown, path), posixpath.dirname(path), leads_to)


def uri_of(path: str) -> str:
    """Return where a path of the repository is on the site; empty if there is no such file."""
    if path in PUBLISHED:
        return PUBLISHED[path]
    if (ROOT / path).is_dir():
        readme = f"{path}/README.md"
        return uri_of(readme) if (ROOT / readme).is_file() else _below_docs(f"{path}/index.md")
    return _below_docs(path) if (ROOT / path).is_file() else ""


def path_of(uri: str) -> str:
    """Return the path in the repository of a page of the site."""
    for path, published in PUBLISHED.items():
        if uri == published:
            return path
    return uri.removeprefix("source/") if uri.startswith("source/") else f"docs/{uri}"


def _below_docs(path: str) -> str:
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}"


def _is_page(path: str) -> bool:
    return path in PUBLISHED or path.startswith("docs/")


def _linked_targets() -> set[str]:
    """Return the files and folders of the repository that a page links to."""
    found: set[str] = set()
    for page in [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in PUBLISHED)]:
        folder = page.parent.relative_to(ROOT).as_posix()

        def note(target: str) -> str:
            if (ROOT / target).exists():
                found.add(target)
            return ""

        _relinked(page.read_text(encoding="utf-8"), "" if folder == "." else folder, note)
    return found


def _listed_folders(nav: Any) -> Iterator[str]:
    """Yield the folders of docs whose list the navigation names."""
    if isinstance(nav, str):
        folder = nav.removesuffix("/index.md")
        if folder != nav:
            yield f"docs/{folder}"
    else:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from _listed_folders(each)


def _relinked(markdown: str, folder: str, leads_to: Callable[[str], str]) -> str:
    """Return the text with those links replaced, outside of code, that ``leads_to`` knows."""

    def link(match: re.Match[str]) -> str:
        begin, target, end = match.groups()
        if _ABSOLUTE.match(target):
            return match[0]
        path, hash_, anchor = target.partition("#")
        new = leads_to(posixpath.normpath(posixpath.join(folder, path)))
        return f"{begin}{new}{hash_}{anchor}{end}" if new else match[0]

    parts = _CODE.split(markdown)
    return "".join(part if n % 2 else _LINK.sub(link, part) for n, part in enumerate(parts))


def _add_folder(files: Files, config: Any, folder: str) -> None:
    """Add a page that lists a folder, and what is in it; a README stands for the list."""
    members = [each.relative_to(ROOT).as_posix() for each in _members(ROOT / folder)]
    for each in members:
        if not _is_page(each):
            _add_file(files, config, each)
    if not (ROOT / folder / "README.md").is_file():
        links = [f"- [{_title(each)}]({posixpath.relpath(each, folder)})" for each in members]
        text = "\n".join([f"# {folder}", "", *links, ""])
        files.append(File.generated(config, uri_of(folder), content=text))


def _add_file(files: Files, config: Any, path: str) -> None:
    if files.get_file_from_path(uri_of(path)) is None:
        files.append(File.generated(config, uri_of(path), abs_src_path=str(ROOT / path)))


def _members(folder: Path) -> Iterator[Path]:
    for each in sorted(folder.rglob("*")):
        hidden = any(part.startswith((".", "__pycache__")) for part in each.parts)
        if each.is_file() and not hidden:
            yield each


def _title(path: str) -> str:
    """Return the heading of a page of docs, else the path."""
    if not path.startswith("docs/"):
        return path
    return (ROOT / path).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _expanded(entry: Any) -> Any:
    if isinstance(entry, dict):
        return {title: _expanded(inner) for title, inner in entry.items()}
    if isinstance(entry, list):
        return [page for each in entry for page in _pages(each)]
    return entry


def _pages(entry: Any) -> list[Any]:
    if not (isinstance(entry, str) and entry.endswith("/")):
        return [_expanded(entry)]
    names = sorted(page.name for page in (ROOT / "docs" / entry).glob("*.md"))
    index = "README.md" if "README.md" in names else "index.md"
    return [entry + name for name in (index, *(each for each in names if each != index))]
