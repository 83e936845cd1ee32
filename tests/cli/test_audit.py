"""``sharemesh audit`` on the files of real processes: what was done there, and nothing else."""

import json
import stat
import time

import pytest

from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

WAIT_S = 20
RULES = 'authorizer = "acl"\nprincipal_header = "x-user"\nsuper_users = ["User:root"]\n'


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    directory = tmp_path_factory.mktemp("audit")
    config = directory / "cluster.toml"
    config.write_text(RULES)
    for user in ("root", "eve"):
        (directory / user).write_text(f"request.headers=x-user={user}\n")
    with local_up(directory / "data", "--config", str(config)) as up:
        yield up


def run(up, user, *arguments, **options):
    config = str(up.directory.parent / user)
    return up.sharemesh(*arguments, "--command-config", config, **options)


def events(up, *options):
    found = up.sharemesh("audit", str(up.directory), "--json", *options)
    assert found.returncode == 0, found.stderr
    assert not found.stderr
    return [json.loads(each) for each in found.stdout.splitlines()]


def until(up, count, *options):
    """Lines are written five times a second."""
    deadline = time.monotonic() + WAIT_S
    while len(found := events(up, *options)) < count:
        assert time.monotonic() < deadline, found
    return found


def test_aud_1_aud_2_aud_4_refusals_and_changes_of_a_real_cluster_are_read(up):
    assert run(up, "root", "topics", "create", "orders").returncode == 0
    run(up, "root", "produce", "orders", "-", "--format", "text", stdin="not for the log\n")
    consume = ("consume", "orders", "--group", "g", "--from-beginning", "--max-records", "1")
    assert "not for the log" in run(up, "root", *consume).stdout
    assert run(up, "eve", "topics", "delete", "orders").returncode != 0
    run(up, "root", "configs", "alter", "--topic", "orders", "retention.ms=60000")
    [created] = until(up, 1, "--rpc", "CreateTopics")
    assert created["principal"] == "User:root"
    assert created["resources"][0]["name"] == "orders"
    assert created["decision"] == "done"
    refused = until(up, 1, "--decision", "refused")
    assert {each["principal"] for each in refused} == {"User:eve"}
    assert any(each["error"] == "TOPIC_AUTHORIZATION_FAILED" for each in refused)
    [altered] = until(up, 1, "--rpc", "Admin/AlterConfigs")
    assert altered["resources"][0]["change"] == "retention.ms=60000"


def test_the_clusters_own_calls_and_clients_traffic_leave_no_lines(up):
    everything = events(up)
    assert not {each["rpc"] for each in everything} & {
        "ShareCoordinator/WriteShareGroupState",
        "ShareCoordinator/InitializeShareGroupState",
        "RecordLog/Produce",
        "ShareLeader/Consume",
    }
    assert not [each for each in everything if each["principal"].startswith("Node:")]
    text = "".join(
        each.read_text() for each in (up.directory / "logs").iterdir() if ".jsonl" in each.name
    )
    secret = (up.directory / "run" / "cluster-secret").read_text().strip()
    assert secret not in text
    assert "not for the log" not in text


def test_bnd_4_audit_files_are_their_users_alone(up):
    files = [each for each in (up.directory / "logs").iterdir() if ".jsonl" in each.name]
    assert len(files) == 16, "two of each of eight processes"
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
