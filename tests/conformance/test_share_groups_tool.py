"""Section R: lag and the tool for share groups, over a cluster of real processes."""

import csv
import re
from datetime import UTC, datetime

import pytest

from sharemesh.cli.formatting import table_lines
from sharemesh.client import AcknowledgeType
from sharemesh.client.admin.codec import group_states
from sharemesh.client.errors import IllegalArgumentError
from tests.cli.local_up import local_up
from tests.conformance.client_world import ClientWorld

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("r") / "data") as up:
        yield up


@pytest.fixture(scope="module")
def cluster(up):
    world = ClientWorld(up.bootstrap)
    yield world
    world.close()


@pytest.fixture
def world(cluster):
    yield cluster
    cluster.end_test()


@pytest.fixture
def tool(up):
    def run(*arguments: str):
        return up.sharemesh(
            "--bootstrap-server",
            up.bootstrap,
            *arguments,
            module="sharemesh.cli.share_groups",
        )

    return run


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def consumed(world: ClientWorld, group: str, topic: str, count: int) -> None:
    consumer = world.consumer(topic, group)
    got = 0
    while got < count:
        got += len(consumer.poll(2_000))
    consumer.commit_sync()
    consumer.close()


@pytest.mark.scenario("ADM-S01")
def test_lag_counts_what_is_not_finished(world):
    topic, group = world.topic(), world.group(share_auto_offset_reset="latest")
    consumer = world.consumer(topic, group)
    assert consumer.poll(1_000) == []
    world.produce(topic, 1)
    assert world.poll(consumer)
    consumer.commit_sync()
    world.until(lambda: world.lag(group, topic) == 0)
    world.produce(topic, 1)
    world.until(lambda: world.lag(group, topic) == 1)


@pytest.mark.scenario("ADM-S02")
def test_a_released_record_is_lag_and_a_rejected_one_is_not(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.explicit(topic, group)
    for kind, lag in ((AcknowledgeType.RELEASE, 1), (AcknowledgeType.ACCEPT, 0)):
        (record,) = world.poll(consumer)
        consumer.acknowledge(record, kind)
        consumer.commit_sync()
        assert world.lag(group, topic) == lag
    world.produce(topic, 1)
    (record,) = world.poll(consumer)
    consumer.acknowledge(record, AcknowledgeType.REJECT)
    consumer.commit_sync()
    assert world.lag(group, topic) == 0


@pytest.mark.scenario("ADM-S03")
def test_a_fetched_and_unacknowledged_record_is_lag(world):
    topic, group = world.topic(), world.group()
    first, second = world.explicit(topic, group), world.explicit(topic, group)
    for consumer in (first, second):
        world.produce(topic, 1)
        records = []
        while not records:
            records = consumer.poll(200) or (first if consumer is second else second).poll(200)
        holder = first if _holds(first, records) else second
        holder.acknowledge(records[0])
        holder.commit_sync()
    assert world.lag(group, topic) == 0
    world.produce(topic, 1)
    world.until(lambda: first.poll(100) or second.poll(100))
    assert world.lag(group, topic) == 1


def _holds(consumer, records) -> bool:
    from sharemesh.client.errors import IllegalStateError

    try:
        consumer.acknowledge(records[0])
    except IllegalStateError:
        return False
    return True


@pytest.mark.scenario("ADM-S07")
def test_a_partition_without_a_start_offset_is_absent(world):
    topic, group = world.topic(), world.group(share_auto_offset_reset="latest")
    world.consumer(topic, group)
    world.until(lambda: group in [each.group_id for each in world.admin.list_groups()])
    assert world.admin.list_share_group_offsets(group, [topic]) == {}


@pytest.mark.scenario("CLI-S02")
def test_list(world, tool):
    topic, group = world.topic(), world.group()
    empty = world.group()
    consumed(world, empty, topic, 0)
    world.explicit(topic, group).poll(500)
    consumed_then_left = world.explicit(topic, empty)
    consumed_then_left.poll(500)
    consumed_then_left.close()
    assert {group, empty} <= set(tool("--list").stdout.split())
    listed = rows(tool("--list", "--state", "stable").stdout)
    assert listed[0] == ["GROUP", "STATE"]
    assert [group, "Stable"] in listed
    assert empty not in [row[0] for row in listed]
    assert group_states(["empty"]) == ["Empty"]
    assert group_states(["Stable", " Dead"]) == ["Stable", "Dead"]
    with pytest.raises(IllegalArgumentError):
        group_states(["bad", " wrong"])


@pytest.mark.scenario("CLI-S03")
def test_describe_offsets(world, tool):
    topic, group = world.topic(), world.group()
    world.produce(topic, 10)
    consumed(world, group, topic, 10)
    world.produce(topic, 5)
    head, row = rows(tool("--describe", "--group", group).stdout)
    assert head == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert row[:3] == [group, topic, "0"]
    assert row[3:] in (["10", "5"], ["0", "5"])
    head, row = rows(tool("--describe", "--group", group, "--offsets", "--verbose").stdout)
    assert head == ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]
    assert int(row[3]) >= 0


def test_unknown_values_are_a_dash():
    assert table_lines(["A", "B"], [[None, ""], [0, "x"]]) == ["A B", "- -", "0 x"]


@pytest.mark.scenario("CLI-S05")
def test_describe_state_and_members(world, tool):
    """CLI-10."""
    topic, group = world.topic(2), world.group()
    consumer = world.explicit(topic, group)
    consumer.poll(500)
    world.until(lambda: f"{topic}:0,1" in tool("--describe", "--group", group, "--members").stdout)
    output = tool("--describe", "--group", group, "--state").stdout
    assert output.splitlines()[0].split("  ")[0].startswith("GROUP")
    assert re.split(r"\s{1,}", output.splitlines()[0].strip()) == [
        "GROUP", "COORDINATOR", "(ID)", "STATE", "#MEMBERS",
    ]  # fmt: skip
    assert rows(output)[1][0] == group
    assert rows(output)[1][-2:] == ["Stable", "1"]
    verbose = tool("--describe", "--group", group, "--state", "--verbose").stdout
    assert rows(verbose)[0][-4:] == ["STATE", "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"]
    head, row = rows(tool("--describe", "--group", group, "--members").stdout)
    assert head == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    assert [row[0], row[1], row[4], row[5]] == [group, consumer.member_id, "2", f"{topic}:0,1"]
    head, _ = rows(tool("--describe", "--group", group, "--members", "--verbose").stdout)
    assert head[-2:] == ["MEMBER-EPOCH", "ASSIGNMENT"]
    missing = tool("--describe", "--group", "nobody")
    assert missing.returncode == 1
    assert "Share group 'nobody' does not exist." in missing.stderr
    world.end_test()
    empty = f"Share group '{group}' has no active members."
    world.until(lambda: empty in tool("--describe", "--group", group, "--members").stdout)
    world.admin.delete_share_group_offsets(group, [topic])
    described = tool("--describe", "--group", group).stdout
    assert f"Share group '{group}' has no offset information." in described


@pytest.mark.scenario("CLI-S06")
def test_delete(world, tool):
    topic = world.topic()
    empty, busy = world.group(), world.group()
    gone = world.explicit(topic, empty)
    gone.poll(500)
    gone.close()
    world.explicit(topic, busy).poll(500)
    failed = tool("--delete", "--group", busy)
    assert failed.returncode == 1
    assert f"Share group '{busy}' is not EMPTY." in failed.stdout
    unknown = tool("--delete", "--group", "consumers")
    assert "Group 'consumers' is not a share group." in unknown.stdout
    partly = tool("--delete", "--group", empty, "--group", busy)
    assert partly.returncode == 1
    assert "Deletion of some share groups failed:" in partly.stdout
    assert f"'{empty}'" in partly.stdout
    again = world.group()
    gone = world.explicit(topic, again)
    gone.poll(500)
    gone.close()
    done = tool("--delete", "--group", again)
    assert done.returncode == 0
    assert f"Deletion of requested share groups ('{again}') was successful." in done.stdout
    assert tool("--delete").returncode == 2


@pytest.mark.scenario("CLI-S06")
def test_delete_offsets(world, tool):
    """CLI-6."""
    topic, other, group = world.topic(), world.topic(), world.group()
    for each in (topic, other):
        world.produce(each, 1)
        consumed(world, group, each, 1)
    done = tool("--delete-offsets", "--group", group, "--topic", topic)
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout) == [["TOPIC", "STATUS"], [topic, "Successful"]]
    assert {each.topic for each in world.admin.list_share_group_offsets(group)} == {other}
    missing = tool("--delete-offsets", "--group", "missing", "--topic", topic)
    assert missing.returncode == 1
    assert "Share group 'missing' does not exist." in missing.stderr
    world.explicit(other, group).poll(500)
    busy = tool("--delete-offsets", "--group", group, "--topic", other)
    assert busy.returncode == 1
    assert f"Share group '{group}' is not empty." in busy.stderr


@pytest.mark.scenario("CLI-S08")
def test_reset_offsets(world, tool):
    """CLI-8."""
    first, second, group = world.topic(), world.topic(), world.group()
    before = datetime.now(tz=UTC)
    for topic in (first, second):
        world.produce(topic, 5)
        consumed(world, group, topic, 5)

    def reset(*arguments: str) -> dict[str, int]:
        done = tool("--reset-offsets", "--group", group, *arguments)
        assert done.returncode == 0, done.stderr
        head, *found = rows(done.stdout)
        assert head == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
        return {row[1]: int(row[3]) for row in found}

    both = ("--topic", first, "--topic", second)
    assert reset("--to-latest", *both, "--dry-run") == {first: 5, second: 5}
    assert world.lag(group, first) == 0
    assert reset("--to-earliest", *both, "--execute") == {first: 0, second: 0}
    assert [world.lag(group, topic) for topic in (first, second)] == [5, 5]
    assert reset("--to-latest", *both, "--execute") == {first: 5, second: 5}
    assert [world.lag(group, topic) for topic in (first, second)] == [0, 0]
    since = before.strftime("%Y-%m-%dT%H:%M:%S.000")
    assert reset("--to-datetime", since, "--all-topics", "--execute") == {first: 0, second: 0}
    later = "2999-01-01T00:00:00.000"
    assert reset("--to-datetime", later, "--all-topics", "--dry-run") == {first: 5, second: 5}
    assert reset("--to-offset", "3", "--topic", first, "--execute") == {first: 3}
    assert world.lag(group, first) == 2
    assert reset("--to-current", "--topic", first, "--execute") == {first: 3}
    assert world.lag(group, first) == 2


def test_offsets_go_out_as_csv_and_come_back(world, tool, tmp_path):
    topic, group = world.topic(2), world.group()
    world.produce(topic, 5)
    reset = ("--reset-offsets", "--group", group)
    done = tool(*reset, "--to-latest", "--topic", topic, "--execute", "--export")
    assert done.returncode == 0, done.stderr
    ends = {int(row[1]): int(row[2]) for row in csv.reader(done.stdout.splitlines())}
    assert sum(ends.values()) == 5
    saved = tmp_path / "offsets.csv"
    exported = tool(*reset, "--all-topics", "--to-current", "--dry-run", "--export").stdout
    assert exported == "".join(f"{topic},{partition},{end}\n" for partition, end in ends.items())
    saved.write_text(exported)
    assert tool(*reset, "--all-topics", "--to-earliest", "--execute").returncode == 0
    assert world.lag(group, topic) == 5
    back = tool(*reset, "--from-file", str(saved), "--execute")
    assert back.returncode == 0, back.stderr
    assert rows(back.stdout)[0] == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    assert world.lag(group, topic) == 0
    saved.write_text(f"{topic},0,1000\n")
    moved = tool(*reset, "--from-file", str(saved), "--dry-run", "--export")
    assert moved.stdout == f"{topic},0,{ends[0]}\n"
    saved.write_text(f"{topic},9,0\n")
    unknown = tool(*reset, "--from-file", str(saved), "--execute")
    assert unknown.returncode == 1
    assert f"partition '9' of topic '{topic}' does not exist" in unknown.stderr
    assert world.lag(group, topic) == 0


def test_offsets_are_shifted_within_the_log(world, tool):
    topic, other, group = world.topic(), world.topic(), world.group()
    for each in (topic, other):
        world.produce(each, 5)
    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    assert tool(*reset, "--to-latest", "--execute").returncode == 0
    shifted = tool(*reset, "--shift-by", "-2", "--execute")
    assert rows(shifted.stdout)[1:] == [[group, topic, "0", "3"]], shifted.stderr
    assert world.lag(group, topic) == 2
    assert rows(tool(*reset, "--shift-by", "9", "--dry-run").stdout)[1][-1] == "5"
    assert rows(tool(*reset, "--shift-by", "-9", "--dry-run").stdout)[1][-1] == "0"
    nowhere = tool(*reset, "--topic", other, "--shift-by", "1", "--execute")
    assert nowhere.returncode == 1
    assert f"cannot shift {other}/0: group '{group}' has no start offset" in nowhere.stderr
    assert world.lag(group, topic) == 2


@pytest.mark.scenario("CLI-S09")
def test_reset_offsets_refusals(world, tool):
    topic, group = world.topic(), world.group()
    without = tool("--reset-offsets", "--group", group, "--to-earliest", "--execute")
    assert without.returncode != 0
    unknown = tool(
        "--reset-offsets", "--group", group, "--to-earliest", "--execute", "--topic", "nothing"
    )
    assert unknown.returncode == 1
    new = tool("--reset-offsets", "--group", "new", "--to-earliest", "--execute", "--topic", topic)
    assert new.returncode == 0, new.stderr
    assert rows(new.stdout)[1] == ["new", topic, "0", "0"]
    world.explicit(topic, group).poll(500)
    busy = tool("--reset-offsets", "--group", group, "--to-latest", "--execute", "--topic", topic)
    assert busy.returncode == 1
    assert f"Share group '{group}' is not empty." in busy.stderr
    other = world.topic()
    world.end_test()
    world.until(lambda: group not in tool("--list", "--state", "Stable").stdout)
    unsubscribed = tool(
        "--reset-offsets", "--group", group, "--to-latest", "--execute", "--topic", other
    )
    assert unsubscribed.returncode == 0, unsubscribed.stderr
