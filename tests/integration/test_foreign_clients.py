"""Clients that are not ours, against real processes: grpcurl as its guide says, and Go."""

import itertools
import json
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests import go_tools
from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1_200)]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "grpcurl.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MARK = "--- next block ---"


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("foreign") / "data") as up:
        yield up


def address(up) -> str:
    """Return one process of the cluster; any will do."""
    return str(up.bootstrap).partition(",")[0]


def leader_address(up) -> str:
    """Return the address of a share leader."""
    shown = json.loads(up.sharemesh("cluster", "--json").stdout)
    return next(each["address"] for each in shown["nodes"] if each["node"] == "share-leader-0")


def test_the_session_of_the_page_produces_fetches_decoded_and_acknowledges(up) -> None:
    assert f"go install {go_tools.GRPCURL}" in PAGE
    script = f"\necho '{MARK}'\n".join(BLOCKS).replace("127.0.0.1:9400", address(up))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=go_tools.grpcurl(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "error_code" not in done.stdout, done.stdout
    _, joined, produced, fetched, again, left = done.stdout.split(MARK)
    assert '"member_epoch":' in joined
    assert '"assignment":' in joined
    assert '"last_offset":"1"' in produced
    assert '"acquired_records":[{"last_offset":"1","delivery_count":1}]' in fetched
    assert '"key":"YQ==","value":"aGVsbG8=","delivery_count":1}' in fetched
    assert '"value":"d29ybGQ=","headers":[{"key":"lang","value":"ZW4="}]' in fetched
    second = '"acquired_records":[{"first_offset":"1","last_offset":"1","delivery_count":2}]'
    assert second in again
    assert "aGVsbG8=" not in again
    assert '"start_offset":"1"' in left
    assert '"lag"' not in left  # 0


def test_the_go_consumer_prints_and_accepts_every_record(up) -> None:
    program = go_tools.example_consumer()
    assert up.sharemesh("topics", "create", "orders", "--partitions", "4").returncode == 0
    rows = "".join(f'{{"id": {number}}}\n' for number in range(40))
    assert up.sharemesh("produce", "orders", stdin=rows).returncode == 0
    reset = ("configs", "alter", "--group", "billing", "share.auto.offset.reset=earliest")
    assert up.sharemesh(*reset).returncode == 0
    consumer = subprocess.Popen(
        [str(program), address(up), "orders", "billing"], stdout=subprocess.PIPE, text=True
    )
    stop = threading.Timer(60, consumer.kill)  # then the lines end early
    stop.start()
    try:
        assert consumer.stdout is not None
        lines = list(itertools.islice(consumer.stdout, 40))
        while up_lag(up, "billing") and consumer.poll() is None:
            time.sleep(0.1)  # what was printed last is accepted with the next fetch
        assert consumer.poll() is None, "it ended, or not all was accepted in time"
    finally:
        stop.cancel()
        consumer.kill()
        consumer.communicate()
    assert sorted(line.split(" ", 2)[2].strip() for line in lines) == sorted(rows.splitlines())


def test_the_go_consumer_goes_on_where_its_group_is_coordinated_now(up) -> None:
    program = go_tools.example_consumer()
    assert up.sharemesh("topics", "create", "moved", "--partitions", "1").returncode == 0
    reset = ("configs", "alter", "--group", "movers", "share.auto.offset.reset=earliest")
    assert up.sharemesh(*reset).returncode == 0
    consumer = subprocess.Popen(
        [str(program), leader_address(up), "moved", "movers"], stdout=subprocess.PIPE, text=True
    )
    stop = threading.Timer(90, consumer.kill)  # then the lines end early
    stop.start()

    def passed(number: int) -> str:
        assert up.sharemesh("produce", "moved", stdin=f"{number}\n").returncode == 0
        assert consumer.stdout is not None
        return consumer.stdout.readline().strip()

    try:
        assert passed(1) == "0 0 1"
        for number in (0, 1):  # it moves with one of them at least
            node = f"group-coordinator-{number}"
            drained = up.sharemesh("cluster", "drain", node)
            assert drained.returncode == 0, drained.stderr
            assert passed(2 + number) == f"0 {1 + number} {2 + number}"
            again = up.sharemesh("up", "restart", node, "--data-directory", str(up.directory))
            assert again.returncode == 0, again.stderr
        assert passed(4) == "0 3 4"
        assert consumer.poll() is None
    finally:
        stop.cancel()
        consumer.kill()
        consumer.communicate()


def test_the_go_consumer_says_what_is_wrong_and_ends(up) -> None:
    program = str(go_tools.example_consumer())

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stderr

    assert run() == (2, "consumer: usage: consumer HOST:PORT TOPIC GROUP\n")
    code, said = run(address(up), "nothing-here", "billing")
    assert code == 1
    assert said.startswith("consumer: topic nothing-here: ")
    assert said.endswith(" (error code 3)\n")
    code, said = run("127.0.0.1:9", "orders", "billing")
    assert code == 1
    assert "connection refused" in said
    assert "panic" not in said


def up_lag(up, group: str) -> int:
    """Return how many records of all partitions are not finished."""
    described = up.sharemesh("groups", "describe", group, "--json")
    assert described.returncode == 0, described.stderr
    return sum(each["lag"] for each in json.loads(described.stdout)["offsets"])


def test_the_go_consumer_has_sixty_lines() -> None:
    assert len((ROOT / "examples" / "go" / "main.go").read_text().splitlines()) <= 60
