"""Bad input and failure as a user meets them: one clear sentence, nothing lost, nothing half made.

Unknown topics, wrong ports and malformed rows stand in ``tests/cli/test_commands.py``; a start
that fails in one role process in ``tests/serve/test_start_errors.py``; an etcd that dies while a
cluster runs in ``test_up.py``.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sharemesh.client import AdminClient, connect
from sharemesh.serve.exit_codes import ExitCode
from tests.cli.local_up import LocalUp, local_up
from tests.etcd_server import EtcdServer
from tests.free_ports import free_port

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS = 12
ONE_OF_EACH = ("--share-leaders=1", "--group-coordinators=1", "--share-coordinators=1")
ROOM_BYTES = 48 * 1024 * 1024  # twice what the logs keep in reserve, and a half
IN_SMALL_TMPFS = (
    "unshare", "-Urm", "sh", "-c",
    f'mount -t tmpfs -o size={ROOM_BYTES} tmpfs "$0" && exec "$@"',
)  # fmt: skip
IN_FULL_TMPFS = (
    "unshare", "-Urm", "sh", "-c",
    'mount -t tmpfs -o size=64k,nr_inodes=3 tmpfs "$0" && mkdir "$0/data" && exec "$@"',
)  # fmt: skip


def refused_up(directory: Path, *arguments: str, wrapper: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run ``sharemesh up`` that must not start; return its exit code and its one sentence."""
    command = [*wrapper, sys.executable, "-m", "sharemesh.cli", "up", "--plain", "--base-port=0"]
    command += [f"--data-directory={directory}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("sharemesh: ")
    return done.returncode, lines[0]


def produce(up: LocalUp, topic: str, first: int = 0, count: int = ROWS) -> None:
    """Produce numbers, each in a batch of its own, all confirmed."""
    with connect(up.bootstrap).producer() as producer:
        for number in range(first, first + count):
            producer.send(topic, b"%d" % number, partition=0).result(30)


def consumed(up: LocalUp, topic: str, *, at_most: int) -> tuple[list[int], str]:
    """Return the numbers that a new group gets, and what the command says on stderr."""
    done = up.sharemesh(
        "consume", topic, "--group", f"g-{topic}", "--from-beginning", "--json",
        "--idle", "3000", "--max-records", str(at_most),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["value"] for line in done.stdout.splitlines()], done.stderr


def segment_of(up: LocalUp, admin: AdminClient, topic: str) -> Path:
    """Return the record log file of partition 0 that holds the records."""
    folder = up.directory / "records" / admin.describe_topics([topic])[topic].topic_id / "00000"
    return max(folder.glob("*.log"), key=lambda file: file.stat().st_size)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A cluster that was stopped, damaged on disk in three ways, and started again."""
    data = tmp_path_factory.mktemp("damaged") / "data"
    segments = {}
    # Through the client: each command would cost a second.
    with local_up(data, *ONE_OF_EACH) as up, connect(up.bootstrap).admin() as admin:
        for topic in ("torn", "cut", "flipped"):
            admin.create_topic(topic, 1)
            produce(up, topic)
            segments[topic] = segment_of(up, admin, topic)
    with segments["torn"].open("ab") as file:
        file.write(b"half a batch")
    with segments["cut"].open("r+b") as file:
        file.truncate(segments["cut"].stat().st_size - 5)
    content = bytearray(segments["flipped"].read_bytes())
    content[len(content) // 2] ^= 4
    segments["flipped"].write_bytes(content)
    with local_up(data, *ONE_OF_EACH) as up:
        yield up, segments


def test_a_torn_tail_costs_nothing(damaged) -> None:
    up, _ = damaged
    produce(up, "torn", ROWS, 1)
    values, said = consumed(up, "torn", at_most=ROWS + 1)
    assert values == list(range(ROWS + 1))
    assert "cannot be read" not in said


@pytest.mark.parametrize("topic", ["cut", "flipped"])
def test_damaged_records_are_named_and_what_lies_before_them_is_served(damaged, topic) -> None:
    up, segments = damaged
    values, said = consumed(up, topic, at_most=ROWS)
    assert values == list(range(len(values)))
    assert 0 < len(values) < ROWS
    refused = up.sharemesh("produce", topic, "--format=text", "--timeout=3000", stdin="x\n")
    assert refused.returncode == 1
    place = f"{segments[topic].name}, position "
    messages = [refused.stderr] if topic == "cut" else [refused.stderr, said]
    for text in messages:
        assert place in text
        assert f"offset {len(values)}" in text
        assert "restore that file from a copy and" in text
        assert "`sharemesh topics delete-records TOPIC/PARTITION --before " in text
    logs = "".join(log.read_text() for log in (up.directory / "logs").glob("share-leader-*.log"))
    assert place in logs


def test_a_second_cluster_on_the_directory_is_refused_and_the_first_goes_on(damaged) -> None:
    up, _ = damaged
    code, sentence = refused_up(up.directory)
    assert code == ExitCode.DIRECTORY_IN_USE
    assert "in use by another cluster" in sentence
    assert "stop that one or set data_directory" in sentence
    assert up.sharemesh("topics", "list").returncode == 0


def test_a_directory_of_a_newer_format_is_refused_and_left_as_it_is(damaged, tmp_path) -> None:
    up, _ = damaged
    fields = json.loads((up.directory / "cluster.json").read_text())
    (name,) = [name for name in fields if "format" in name or name in {"v", "version"}]
    newer = json.dumps({**fields, name: 99})
    (tmp_path / "cluster.json").write_text(newer)
    code, sentence = refused_up(tmp_path)
    assert code == ExitCode.OTHER_CLUSTER
    assert "99" in sentence
    assert str(tmp_path) in sentence
    assert [file.name for file in tmp_path.iterdir()] == ["cluster.json"]
    assert (tmp_path / "cluster.json").read_text() == newer


def test_an_etcd_that_is_down_is_named(tmp_path) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    code, sentence = refused_up(tmp_path / "data", f"--etcd-endpoints={endpoint}")
    assert code == ExitCode.COORDINATION_UNREACHABLE
    assert endpoint in sentence
    assert "does not answer" in sentence


def test_a_start_on_a_full_disk_is_refused(tmp_path) -> None:
    wrapper = (*IN_FULL_TMPFS, str(tmp_path))
    code, sentence = refused_up(tmp_path / "data", wrapper=wrapper)
    assert code == ExitCode.DIRECTORY_UNUSABLE
    assert "no space left on device; make room on that disk" in sentence


def fill_up(filler: Path) -> None:
    """Write until the disk takes no byte more."""
    block = bytes(1 << 20)
    with filler.open("wb", buffering=0) as file:
        while file.write(block) == len(block):
            pass
        with pytest.raises(OSError, match="No space left"):
            file.write(b"x")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    server = EtcdServer(tmp_path_factory.mktemp("etcd"))
    server.launch()
    yield server
    server.stop()


def test_a_disk_that_fills_up_refuses_produces_and_loses_nothing(etcd, tmp_path) -> None:
    given = (f"--etcd-endpoints={etcd.endpoint}", "--cluster-id=small", *ONE_OF_EACH)
    wrapper = (*IN_SMALL_TMPFS, str(tmp_path))
    with local_up(tmp_path / "data", *given, wrapper=wrapper) as up:
        filler = Path(f"/proc/{up.pid}/root{tmp_path}/filler")
        assert up.sharemesh("topics", "create", "t").returncode == 0
        produce(up, "t")
        fill_up(filler)
        refused = up.sharemesh("produce", "t", "--format=text", "--timeout=3000", stdin="99\n")
        assert refused.returncode == 1
        assert "1 record not confirmed" in refused.stderr
        assert "free space on the volume" in refused.stderr
        filler.unlink()
        produce(up, "t", ROWS, 1)
        values, _ = consumed(up, "t", at_most=ROWS + 1)
    assert values == list(range(ROWS + 1)), "what was refused is not there, what was confirmed is"
