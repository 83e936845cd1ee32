"""The site builds without a dead link or anchor, and publishes what pages link to."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.pages.site import path_of, uri_of

ROOT = Path(__file__).parents[2]


def built(site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build the site as `make docs` does."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


def unread_markdown(page: Path) -> list[str]:
    """Return paragraphs in which a list, a table or a link was left as it was typed."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"<(pre|code)[^>]*>.*?</\1>", "", text, flags=re.DOTALL)
    paragraphs = re.findall(r"<p>(.*?)</p>", text, re.DOTALL)
    left = re.compile(r"(^|\n)(- |\d+\. |\| )|\]\(")
    return [f"{page}: {each[:100]}" for each in paragraphs if left.search(each)]


@pytest.mark.slow
def test_the_site_builds_and_fetches_nothing_from_elsewhere(tmp_path):
    done = built(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "runbooks" / "SharemeshArchived" / "index.html").is_file()
    assert (tmp_path / "source" / "examples" / "worker.py").is_file()
    assert [broken for page in tmp_path.rglob("*.html") for broken in unread_markdown(page)] == []
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'src="http' not in home
    assert "fonts.googleapis" not in home


@pytest.mark.slow
def test_a_dead_link_and_a_dead_anchor_fail_the_build(tmp_path):
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "page.md").write_text("# Page\n\n[a](no-such-page.md) [b](#no-such-anchor)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT}/mkdocs.yml\nhooks: []\nwatch: []\nnav: [page.md]\n")
    done = built(tmp_path / "site", "--config-file", str(config))
    assert done.returncode != 0
    assert "contains a link 'no-such-page.md'" in done.stderr
    assert "contains a link '#no-such-anchor'" in done.stderr


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("README.md", "index.md"),
        ("docs/concepts/model.md", "concepts/model.md"),
        ("docs/spec", "spec/README.md"),
        ("docs/decisions", "decisions/index.md"),
        ("examples/worker.py", "source/examples/worker.py"),
        ("docs/no-such-page.md", ""),
    ],
)
def test_a_file_of_the_repository_has_one_place_on_the_site(path, uri):
    assert uri_of(path) == uri
    if (ROOT / path).is_file():
        assert path_of(uri) == path
