"""``sharemesh completion`` prints a script that the shell can use."""

import subprocess

import pytest

from sharemesh.cli.__main__ import main
from sharemesh.cli.commands import command_line

COMPLETED = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_shtab_sharemesh sharemesh "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def bash(tmp_path, capsys):
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "sharemesh"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "rows.jsonl").touch()

    def completed(words: str) -> set[str]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", COMPLETED.format(script=script, words=words)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return {word.strip() for word in done.stdout.splitlines()}

    return completed


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("sharemesh top", {"topics"}),
        ("sharemesh topics de", {"describe", "delete", "delete-records", "detach"}),
        ("sharemesh topics create --par", {"--partitions"}),
        ("sharemesh produce orders --compression sn", {"snappy"}),
        ("sharemesh produce orders ro", {"rows.jsonl"}),
        ("sharemesh up re", {"restart"}),
    ],
)
def test_bash_completes_commands_options_choices_and_files(bash, words, found):
    assert bash(words) == found


def test_zsh_gets_a_script_with_every_command(capsys):
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert script.startswith("#compdef sharemesh")
    assert not [name for name in command_line().subcommands if f"    {name}:'" not in script]
