"""The command line against a cluster of real processes."""

import json

import pytest

from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("cli") / "data") as up:
        yield up


def produced(result) -> dict:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_rows_go_in_and_come_out_once(up):
    assert up.sharemesh("topics", "create", "orders", "--partitions", "2").returncode == 0
    text = "".join(f'{{"id": {n}, "at": "x"}}\n' for n in range(20))
    done = produced(
        up.sharemesh("produce", "orders", "--key", "id", "--headers", "at", "--json", stdin=text)
    )
    assert done["confirmed"] == 20
    consume = ("consume", "orders", "--group", "g", "--from-beginning", "--json", "--idle", "2000")
    first = up.sharemesh(*consume, "--max-records", "20")
    records = [json.loads(line) for line in first.stdout.splitlines()]
    assert sorted(record["value"]["id"] for record in records) == list(range(20))
    assert all(record["key"] == str(record["value"]["id"]) for record in records)
    assert all(record["headers"] == {"at": "x"} for record in records)
    assert up.sharemesh(*consume).stdout == ""
    described = json.loads(up.sharemesh("groups", "describe", "g", "--json").stdout)
    assert sum(each["lag"] for each in described["offsets"]) == 0
    assert described["state"] == "Empty"


def test_actions_release_and_reject(up):
    up.sharemesh("topics", "create", "actions")
    up.sharemesh("produce", "actions", "-", "--format", "text", stdin="x\n")
    consume = ("consume", "actions", "--group", "a", "--from-beginning", "--json", "--idle", "3000")
    counts = []
    for action in ("release", "reject", "accept"):
        out = up.sharemesh(*consume, "--max-records", "1", "--action", action).stdout
        counts.append([json.loads(line)["delivery_count"] for line in out.splitlines()])
    assert counts == [[1], [2], []]


def test_a_malformed_row_stops_with_those_before_it_confirmed(up, tmp_path):
    up.sharemesh("topics", "create", "rows")
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1}\n{"id": 2\n{"id": 3}\n')
    stopped = up.sharemesh("produce", "rows", str(path), "--key", "id", "--json")
    assert stopped.returncode == 1
    assert json.loads(stopped.stdout)["confirmed"] == 1
    assert "line 2: not JSON" in stopped.stderr
    assert "--on-error skip" in stopped.stderr
    assert len(stopped.stderr.splitlines()) == 1
    skipped = up.sharemesh("produce", "rows", str(path), "--on-error", "skip", "--json")
    done = produced(skipped)
    assert (done["confirmed"], done["malformed"]) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("produce", "ordrs"), 1, "did you mean 'orders'"),
        (("consume", "ordrs", "--group", "g"), 1, "did you mean 'orders'"),
        (("topics", "describe", "ordrs"), 1, "did you mean 'orders'"),
        (("topics", "create", "orders"), 1, "exists already"),
        (("topics", "create", "a b"), 1, "letters, digits"),
        (("topics", "list", "--bootstrap", "127.0.0.1:1", "--timeout", "500"), 1, "port right"),
        (("topics", "list", "--bootstrap", "nonsense"), 2, "is not host:port"),
        (("groups", "describe", "nobody"), 1, "not found"),
        (("configs", "alter", "--group", "g", "share.isolation.levl=x"), 1, "did you mean"),
        (("configs", "explain", "share.delivery.count.limt"), 1, "did you mean"),
        (("groups", "offsets", "nobody"), 1, "not found"),
        (("explain", "orders/0@0", "--group", "nobody"), 1, "not found"),
        (("explain", "orders", "--group", "g"), 2, "expected TOPIC/PARTITION@OFFSET"),
        (("explain", "orders@7", "--group", "g"), 2, "expected TOPIC/PARTITION@OFFSET"),
        (("explain", "orders/0@\u00b2", "--group", "g"), 2, "expected TOPIC/PARTITION@OFFSET"),
        (("explain", "orders/\u00b2@7", "--group", "g"), 2, "expected TOPIC/PARTITION"),
        (("explain", f"orders/0@{'7' * 5_000}", "--group", "g"), 2, "expected TOPIC/PARTITION"),
        (("produce", "orders", "/no/such/file"), 1, "No such file"),
        (("state-log", "verify", "/no/such/directory"), 1, "no data directory"),
        (("nonsense",), 2, "invalid choice"),
    ],
)
def test_wrong_input_gets_a_clear_answer_and_an_exit_code(up, arguments, code, words):
    up.sharemesh("topics", "create", "orders", "--if-not-exists")
    done = up.sharemesh(*arguments, stdin="")
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_cluster_explain_configs_and_state_log(up):
    up.sharemesh("topics", "create", "looks")
    up.sharemesh("produce", "looks", "-", "--format", "text", stdin="x\n")
    cluster = json.loads(up.sharemesh("cluster", "--json").stdout)
    assert len(cluster["nodes"]) == 8
    assert cluster["moves"] == cluster["unassigned"] == []
    assert {each["shard"]: each["epoch"] >= 1 for each in cluster["shards"]}["group-0"]
    told = json.loads(up.sharemesh("cluster", "--partitions", "--json").stdout)["partitions"]
    place = next(each for each in told if each["partition"] == "looks/0")
    assert place["leader"].startswith("share-leader-")
    assert place["epoch"] >= 1
    assert len(place["standbys"].split(", ")) == 2
    shown = up.sharemesh("cluster", "--partitions").stdout
    assert "cluster " in shown
    for word in ("controller-0", "SHARD", "EPOCH", "STANDBYS", "looks/0", place["leader"]):
        assert word in shown
    up.sharemesh("consume", "looks", "--group", "l", "--from-beginning", "--max-records", "1")
    found = json.loads(up.sharemesh("explain", "looks/0@0", "--group", "l", "--json").stdout)
    assert found["explanation"]
    assert found["reason"] == "ACKNOWLEDGED"
    assert [each["cause"] for each in found["events"]][-1] == "ACCEPT"
    shown = up.sharemesh("explain", "--group", "l", "looks/0@0").stdout
    assert shown.splitlines()[0] == "looks/0@0 for group l: ACKNOWLEDGED"
    for word in ("ACCEPT at ", "CAUSE", "MEMBER"):
        assert word in shown
    reset = ("groups", "reset-offsets", "typo", "--topic", "looks", "--to-earliest")
    planned, made = up.sharemesh(*reset), up.sharemesh(*reset, "--execute")
    assert "there is no group 'typo': it would be created by --execute" in planned.stderr
    assert "there is no group 'typo': it is created now" in made.stderr
    assert (planned.returncode, made.returncode) == (0, 0)
    assert not up.sharemesh(*reset, "--execute").stderr
    up.sharemesh("configs", "alter", "--group", "l", "share.delivery.count.limit=3")
    configs = json.loads(up.sharemesh("configs", "describe", "--group", "l", "--json").stdout)
    assert {"name": "share.delivery.count.limit", "value": "3", "source": "group"} in configs
    verified = json.loads(up.sharemesh("state-log", "verify", str(up.directory), "--json").stdout)
    assert verified["ok"]
    dumped = up.sharemesh("state-log", "dump", str(up.directory), "--group", "l", "--json")
    kinds = [json.loads(line)["kind"] for line in dumped.stdout.splitlines()]
    assert kinds[0] == "snapshot"


@pytest.mark.parametrize(
    "command",
    ["topics", "produce", "consume", "groups", "configs", "cluster", "explain", "state-log"],
)
def test_every_command_has_help_with_examples(up, command):
    done = up.sharemesh(command, "--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout


def test_version(up):
    assert up.sharemesh("--version").stdout.startswith("sharemesh ")
