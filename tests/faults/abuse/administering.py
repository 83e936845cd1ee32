"""What administrators alone may do, and what they read: quotas, pauses, losses, logs, audit."""

import asyncio
import json
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from sharemesh import methods as m
from sharemesh.methods import Method
from sharemesh.v1 import admin_pb2, share_leader_pb2
from sharemesh.v1.group_coordinator_pb2 import AlterGroupConfigsRequest
from tests.faults.abuse.abused_cluster import (
    ALICES,
    CALLS_AS,
    MALLOR,
    MINE,
    NO_RIGHT,
    OTHER_RIGHT,
    REVOKED,
    ROLES,
    SAME_GROUP,
    SECRET,
    Stage,
)
from tests.faults.abuse.joining import ODD, heartbeat
from tests.faults.abuse.kinds import abuse, error_codes, flood
from tests.faults.abuse.leading import LONGS, acknowledge, fetch

WRITTEN_S = 1.0
"""Audit lines are written five times a second (AUD-8)."""

REFUSED = 2_000
LINES_MAX = 2 * 60
"""Of one principal 50 different refusals in a minute, and a line for each RPC; it may end."""


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED, SAME_GROUP)
async def quotas_of_others_asked_for_and_altered(stage: Stage, who: str) -> None:
    """All quotas; more for oneself; next to nothing for the quiet tenant, its group, everybody."""
    everything = admin_pb2.DescribeClientQuotasRequest()
    change = admin_pb2.AlterClientQuotasRequest()
    for kind, name, quota, value in (
        ("user", f"User:{CALLS_AS[who]}", "streams", 1e9),
        ("user", "User:alice", "producer_byte_rate", 1e-9),
        ("user", None, "request_percentage", 1e-9),
        ("group", ALICES, "record_rate", 1e-9),
        ("user", "User:alice", "streams", float("nan")),
    ):
        entry = change.entries.add()
        entry.entity.add(entity_type=kind, entity_name=name)
        entry.ops.add(key=quota, value=value)
    for role in ROLES:
        asked = await stage.ask(who, role, m.DESCRIBE_CLIENT_QUOTAS, everything)
        assert asked.error_code == 31, f"{who} sees quotas: {asked}"
        altered = await stage.ask(who, role, m.ALTER_CLIENT_QUOTAS, change)
        codes = {each.error_code for each in altered.results}
        assert codes, f"{who}: no answer about quotas"
        assert not codes - {31, 42}, f"{who} alters quotas: {codes}"
    async with stage.client("root").async_admin() as admin:
        assert not await admin.describe_client_quotas(), "a quota was stored"


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED)
async def groups_paused_and_logs_given_up(stage: Stage, who: str) -> None:
    """Stop the quiet tenant's group, detach its topic, give up confirmed records."""
    pause = AlterGroupConfigsRequest(group_id=ALICES)
    pause.configs.add(name="share.paused", value="true")
    loss = admin_pb2.AcceptLossRequest(shard="state-0")
    asked: tuple[tuple[str, Method[Any, Any], Message], ...] = (
        ("group-coordinator", m.ALTER_GROUP_CONFIGS, pause),
        *((role, m.ACCEPT_LOSS, loss) for role in ROLES),
        ("controller", m.DETACH_TOPICS, admin_pb2.DetachTopicsRequest(names=[SECRET] * 100)),
        ("controller", m.ATTACH_TOPICS, admin_pb2.AttachTopicsRequest(names=[SECRET, "x"])),
    )
    for role, method, request in asked:
        said = await stage.send(who, role, method, request)
        codes = error_codes(method.response.FromString(said.data))
        assert codes, f"{who}: no answer to {method.name}"
        assert 0 not in codes, f"{who} may {method.name} at {role}: {codes}"


@abuse(OTHER_RIGHT, NO_RIGHT, finding=11, once=True)
async def control_characters_that_seek_a_log(stage: Stage, who: str) -> None:
    """Odd names in all that is logged or audited; no log of the cluster has them raw."""
    for odd in ODD:
        for role, method, request in (
            ("group-coordinator", m.SHARE_GROUP_HEARTBEAT,
             heartbeat(MALLOR + odd, odd, odd, client=odd)),
            ("share-leader", m.SHARE_FETCH, fetch(stage.topic_ids[MINE], MALLOR + odd, odd)),
            ("controller", m.DESCRIBE_TOPICS, admin_pb2.DescribeTopicsRequest(names=[odd])),
            ("controller", m.CREATE_TOPICS,
             admin_pb2.CreateTopicsRequest(topics=[admin_pb2.NewTopic(name=odd, partitions=1)])),
            ("share-leader", m.EXPLAIN,
             share_leader_pb2.ExplainRequest(group_id=MALLOR + odd, topic_name=odd)),
        ):  # fmt: skip
            await stage.send(who, role, method, request)
    await asyncio.sleep(WRITTEN_S)
    for path in _logs(stage):
        text = await asyncio.to_thread(path.read_bytes)
        raw = {each for each in text if (each < 32 and each not in b"\n\t") or each == 127}
        assert not raw, f"{path.name} has control characters {sorted(raw)}"
        assert "\u202e".encode() not in text, f"{path.name} has text that is turned round"


@abuse(NO_RIGHT, once=True)
async def refusals_by_the_thousand(stage: Stage, who: str) -> None:
    """Two thousand different names without a right: the audit log counts, and does not grow."""
    principal = f"User:{CALLS_AS[who]}"
    before = await asyncio.to_thread(_audited, stage, principal)
    requests = (
        admin_pb2.DeleteTopicsRequest(names=[f"not-mine-{number}"]) for number in range(REFUSED)
    )
    await flood(stage, who, "controller", m.DELETE_TOPICS, requests, at_once=8)
    await asyncio.sleep(WRITTEN_S)
    lines = await asyncio.to_thread(_audited, stage, principal) - before
    assert 0 <= lines <= LINES_MAX, f"{lines} audit lines of {REFUSED} refusals"


@abuse(OTHER_RIGHT)
async def delays_and_counts_that_lie(stage: Stage, who: str) -> None:
    """Releases with delays and delivery counts from one end of the numbers to the other."""
    topic, group = stage.topic_ids[MINE], MALLOR + "y"
    await stage.send(who, "share-leader", m.SHARE_FETCH, fetch(topic, group, "delays"))
    requests = []
    for number in LONGS:
        for kinds in ([2], [1], [2] * 11):
            request = acknowledge(topic, group, "delays", 0, 10, kinds)
            (one,) = request.topics[0].partitions[0].acknowledgement_batches
            one.release_delay_ms = number
            one.uncounted = number % 2 == 0
            one.delivery_count = max(min(number, 2**31 - 1), -(2**31))
            requests.append(request)
    await flood(stage, who, "share-leader", m.SHARE_ACKNOWLEDGE, requests, at_once=4)


def _logs(stage: Stage) -> list[Path]:
    return [each for each in sorted((stage.work / "data" / "logs").glob("*")) if each.is_file()]


def _audited(stage: Stage, principal: str) -> int:
    """Return how many lines of refusals of a principal there are."""
    lines = (
        line
        for path in _logs(stage)
        if ".access.jsonl" in path.name
        for line in path.read_text().splitlines()
    )
    return sum(json.loads(line).get("principal") == principal for line in lines)
