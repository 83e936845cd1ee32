"""``sharemesh-share-groups`` refuses options that do not go together (spec CLI-1, 2, 5, 6, 7)."""

import pytest

from sharemesh.cli.share_groups import main

SERVER = ("--bootstrap-server", "127.0.0.1:1")
RESET = ("--reset-offsets", "--group", "g")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--list"),
        (("--list", "--describe", "--group", "g"), "not allowed with"),
        (("--describe",), "--group or --all-groups"),
        (("--describe", "--group", "g", "--all-groups"), "--group or --all-groups"),
        (("--describe", "--group", "g", "--members", "--offsets"), "at most one of"),
        (("--describe", "--group", "g", "--state", "Empty"), "takes no value"),
        (("--delete",), "--group or --all-groups"),
        (("--delete", "--group", "g", "--topic", "t"), "no topic options"),
        (("--delete-offsets", "--group", "g"), "--group and --topic"),
        ((*RESET, "--topic", "t", "--to-latest"), "--dry-run and --execute"),
        ((*RESET, "--dry-run", "--execute", "--topic", "t", "--to-latest"), "--dry-run and"),
        ((*RESET, "--dry-run", "--to-latest"), "--topic and --all-topics"),
        ((*RESET, "--dry-run", "--topic", "t"), "exactly one of --to-earliest"),
        ((*RESET, "--dry-run", "--from-file", "f", "--all-topics"), "names the topics itself"),
        (
            (*RESET, "--dry-run", "--all-topics", "--shift-by", "-1", "--to-current"),
            "exactly one of --to-earliest",
        ),
        ((*RESET, "--dry-run", "--all-topics", "--to-latest", "--members"), "takes no --members"),
        (("--list", "--verbose"), "--list takes no --verbose; it goes with --describe"),
        (("--list", "--group", "g"), "--list takes no --group"),
        (("--list", "--topic", "t"), "--list takes no --topic"),
        (("--list", "--export"), "--list takes no --export; it goes with --reset-offsets"),
        (("--describe", "--group", "g", "--topic", "t"), "--describe takes no --topic"),
        (("--describe", "--group", "g", "--execute"), "--describe takes no --execute"),
        (("--delete", "--group", "g", "--members"), "--delete takes no --members"),
        (("--delete", "--group", "g", "--state"), "--delete takes no --state"),
        (
            ("--delete-offsets", "--group", "g", "--group", "h", "--topic", "t"),
            "--delete-offsets takes one --group",
        ),
        (("--delete-offsets", "--all-groups", "--topic", "t"), "takes no --all-groups"),
        (
            (*RESET, "--dry-run", "--topic", "t", "--to-latest", "--to-earliest"),
            "exactly one of --to-earliest",
        ),
        (("--reset-offsets", "--dry-run", "--topic", "t", "--to-latest"), "needs one --group"),
        (("--list", "--verbos"), "unrecognized arguments: --verbos; did you mean '--verbose'?"),
    ],
)
def test_wrong_usage_is_told_with_exit_code_2(options, words, capsys):
    """CLI-2, CLI-5, CLI-6, CLI-7."""
    with pytest.raises(SystemExit) as ended:
        main([*SERVER, *options])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_the_servers_are_needed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--list"])
    assert ended.value.code == 2
    assert "--bootstrap-server" in capsys.readouterr().err


def test_a_command_config_and_a_timeout_are_used(tmp_path, capsys):
    config = tmp_path / "admin.properties"
    config.write_text("client.idd=me\n")
    assert main([*SERVER, "--list", "--command-config", str(config)]) == 1
    assert "did you mean 'client.id'" in capsys.readouterr().err
    assert main([*SERVER, "--list", "--timeout", "100"]) == 1
    assert "connection refused; is the cluster running" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_need_no_server(option, capsys):
    with pytest.raises(SystemExit) as ended:
        main([option])
    assert ended.value.code == 0
    assert capsys.readouterr().out
