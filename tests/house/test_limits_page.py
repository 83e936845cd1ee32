"""The pages of limits and exit codes name what exists, with the values of the code."""

import dataclasses
import re
from pathlib import Path

import pytest

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.group_coordinator.coordinator_context import ServiceLimits
from sharemesh.kafka_listener.limits import KafkaListenerLimits
from sharemesh.rpc.limits import ServerLimits
from sharemesh.runtime.shard_kind import RuntimeLimits
from sharemesh.serve.exit_codes import ExitCode
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.share_leader.settings import LeaderSettings

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
LIMITS = (REFERENCE / "limits.md").read_text(encoding="utf-8")
EXITS = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
RECORDS = {
    kind.__name__: kind
    for kind in (
        KafkaListenerLimits,
        LeaderSettings,
        LogSettings,
        RuntimeLimits,
        ServiceLimits,
        ServerLimits,
        ShareCoordinatorSettings,
    )
}


def limits():
    table = LIMITS.partition("<!-- limits -->")[2].partition("<!-- end of limits -->")[0]
    return re.findall(r"^\| `(\w+)\.(\w+)` \| (\d+) \|", table, re.MULTILINE)


@pytest.mark.parametrize(("record", "name", "default"), limits())
def test_limits_have_the_defaults_of_the_code(record, name, default):
    fields = {each.name: each.default for each in dataclasses.fields(RECORDS[record])}
    assert fields[name] == int(default)


def test_every_limit_that_a_user_can_meet_at_a_leader_is_told():
    told = {name for record, name, _ in limits() if record == "LeaderSettings"}
    bounds = {each.name for each in dataclasses.fields(LeaderSettings) if each.name[:4] == "max_"}
    assert told >= bounds - {"max_locks_per_tick"}  # nobody outside can tell


def test_every_exit_code_is_told_and_permanent_ones_say_so():
    rows = dict(re.findall(r"^\| (\d+) \| ([^|]+) \|.*$", EXITS, re.MULTILINE))
    assert {int(code): name.replace(" ", "_").upper() for code, name in rows.items()} == {
        code.value: code.name for code in ExitCode
    }
    lines = re.findall(r"^\| \d+ \| .*$", EXITS, re.MULTILINE)
    permanent = {int(line.split("|")[1]) for line in lines if "permanent" in line}
    assert permanent == {code.value for code in ExitCode if code.permanent}
