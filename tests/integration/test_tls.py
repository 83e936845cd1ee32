"""A process with mutual TLS: its clients are who their certificates say, and renewal is seen."""

import json
import os
import subprocess
import sys
import time

import pytest
import trustme

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]


def issue(authority: trustme.CA, directory, name: str) -> None:
    issued = authority.issue_cert("localhost", "127.0.0.1", common_name=name)
    issued.private_key_pem.write_to_path(directory / f"{name}.key")
    issued.cert_chain_pems[0].write_to_path(directory / f"{name}.crt")


@pytest.fixture
def served(tmp_path):
    """A whole cluster in one process; return its address and a function that runs commands."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    for name in ("server", "admin", "jane"):
        issue(authority, tmp_path, name)
    command = [sys.executable, "-m", "sharemesh.serve", "--role=all", "--listen-port=0"]
    command += [f"--data-directory={tmp_path / 'data'}", "--authorizer=acl"]
    command += ["--super-users=User:admin,User:server", f"--tls-certificate={tmp_path}/server.crt"]
    command += [f"--tls-key={tmp_path}/server.key", f"--tls-authority={tmp_path}/ca.crt"]
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def run(name, *arguments, stdin=None):
        config = tmp_path / f"{name}.properties"
        lines = []
        if name is not None:
            lines.append(f"security.protocol=ssl\nssl.ca.location={tmp_path}/ca.crt\n")
        if name:
            lines.append(f"ssl.certificate.location={tmp_path}/{name}.crt\n")
            lines.append(f"ssl.key.location={tmp_path}/{name}.key\n")
        config.write_text("".join(lines))
        return subprocess.run(
            [sys.executable, "-m", "sharemesh.cli", *arguments, "--command-config", str(config)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "SHAREMESH_BOOTSTRAP": f"127.0.0.1:{ready['port']}"},
        )

    try:
        line = process.stdout.readline()
        assert line, (tmp_path / "log").read_text()
        ready = json.loads(line)
        yield run, tmp_path
    finally:
        process.kill()
        process.communicate()
        log.close()


def until(run, *arguments, stdin=None) -> str:
    deadline = time.monotonic() + 30
    while (done := run(*arguments, stdin=stdin)).returncode:
        assert time.monotonic() < deadline, done.stderr
    return done.stdout


def test_who_may_do_what_is_who_the_certificate_names(served) -> None:
    run, directory = served
    assert run("admin", "topics", "create", "orders").returncode == 0
    assert run("jane", "produce", "orders", stdin='{"n": 1}\n').returncode == 1
    jane = ("--principal", "User:jane", "--operation")
    for rule in (("write", "--topic"), ("read", "--topic"), ("read", "--group")):
        name = "g" if rule[1] == "--group" else "orders"
        added = run("admin", "acls", "add", *jane, *rule, name)
        assert added.returncode == 0, added.stderr
    until(run, "jane", "produce", "orders", stdin='{"n": 1}\n')
    reset = ("configs", "alter", "--group", "g", "share.auto.offset.reset=earliest")
    assert run("admin", *reset).returncode == 0
    consume = ("consume", "orders", "--group", "g", "--json", "--max-records", "1")
    consumed = run("jane", *consume)
    assert json.loads(consumed.stdout)["value"] == {"n": 1}, consumed.stderr

    nobody = run("", "topics", "list", "--timeout", "10000")
    assert nobody.returncode != 0, "who shows no certificate does not come in"
    assert "it may want a certificate of an authority that it trusts" in nobody.stderr
    in_plain_text = run(None, "topics", "list", "--timeout", "10000")
    assert "it may want TLS (security.protocol=ssl, ssl.ca.location)" in in_plain_text.stderr
    for refused in (nobody, in_plain_text):
        assert len(refused.stderr.strip().splitlines()) == 1, "gRPC says nothing of its own"

    other = trustme.CA()
    for name in ("server", "jane"):
        issue(other, directory, name)
    other.cert_pem.write_to_path(directory / "ca.crt")
    until(run, "jane", "produce", "orders", stdin='{"n": 2}\n')
    assert run("admin", "topics", "list").returncode != 0, "its authority is no longer trusted"
