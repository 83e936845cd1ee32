"""The page's way to TLS, pasted: an authority, a node's and a client's certificate, a record."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "security.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## TLS")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)


def block_with(word: str) -> str:
    (found,) = [block for block in BLOCKS if word in block]
    return found


def test_certificates_made_as_the_page_says_let_a_client_in_and_keep_others_out(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for block in BLOCKS:
        if block.startswith("openssl"):
            subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block], check=True, capture_output=True
            )
    Path("cluster.toml").write_text(block_with("tls_certificate"))
    Path("alice.properties").write_text(block_with("ssl.certificate.location"))
    alice = ("--command-config", "alice.properties")
    with local_up(tmp_path / "data", "--config", "cluster.toml") as up:
        done = up.sharemesh("topics", "create", "orders", *alice)
        assert done.returncode == 0, done.stderr
        assert up.sharemesh("produce", "orders", *alice, stdin='{"n": 1}\n').returncode == 0
        consume = ("consume", "orders", "--group", "g", "--from-beginning", "--max-records", "1")
        assert up.sharemesh(*consume, *alice).stdout == '{"n": 1}\n'
        assert os.environ.get("SHAREMESH_CLIENT_CONFIG") is None
        Path("nobody.properties").write_text("security.protocol=ssl\nssl.ca.location=ca.crt\n")
        nobody = ("--command-config", "nobody.properties", "--timeout", "3000")
        assert up.sharemesh("topics", "list", *nobody).returncode == 1
