"""Rights that one has not, had, or claims: every RPC, revoked calls, forged headers, files."""

import asyncio
import contextlib
import stat
from pathlib import Path
from typing import Any

import grpc

from sharemesh import methods as m
from sharemesh.v1 import admin_pb2, group_coordinator_pb2, record_log_pb2, share_coordinator_pb2
from sharemesh.v1.share_leader_pb2 import ConsumeRequest, ShareFetchRequest
from tests.authorization.test_nothing_is_told import FAMILIES, HERE, SECRET, without_echo
from tests.faults.abuse.abused_cluster import (
    ALICES,
    NO_CERTIFICATE,
    NO_RIGHT,
    OTHER_RIGHT,
    REVOKED,
    ROLES,
    ROOM,
    SAME_GROUP,
    Stage,
)
from tests.faults.abuse.kinds import abuse, error_codes

SERVED_BY = {
    "GroupCoordinator": "group-coordinator",
    "ShareLeader": "share-leader",
    "RecordLog": "share-leader",
    "ShareCoordinator": "share-coordinator",
    "Admin": "controller",
}
assert (SECRET, HERE) == ("secret", ALICES), "the requests name the quiet tenant's topic and group"


class _Secret:
    """What the families of requests need of a world."""

    def __init__(self, topic_id: bytes) -> None:
        self.secret = topic_id


@abuse(NO_RIGHT, REVOKED, OTHER_RIGHT, finding=14, once=True)
async def every_rpc_about_what_exists_and_what_does_not(stage: Stage, who: str) -> None:
    """Both are answered alike, by every RPC."""
    world = _Secret(stage.topic_ids[SECRET])
    for family in FAMILIES:
        for asked in family(world):
            if (asked.principal == "User:mallory") != (who == OTHER_RIGHT):
                continue
            role = SERVED_BY[asked.method.name.partition("/")[0]]
            answers = []
            for request in (asked.existing, asked.absent):
                if asked.method.kind is m.StreamingKind.STREAM:
                    heard = await stage.heard(who, role, asked.method, request, for_s=0.5)
                    data = heard[0] if heard else b""
                else:
                    if getattr(request, "share_session_epoch", 0) == 1:
                        await _open_session(stage, who, request)
                    said = await stage.send(who, role, asked.method, request)
                    data = said.data
                found = asked.method.response.FromString(
                    data.replace(world.secret, b"no such topic id")
                )
                answers.append(without_echo(found))
            assert answers[0] == answers[1], f"{who}: {asked.method.name} tells what exists"


async def _open_session(stage: Stage, who: str, request: Any) -> None:
    """Requests that go on in a session need one."""
    opening = ShareFetchRequest(group_id=request.group_id, member_id=request.member_id)
    opening.topics.add(topic_id=request.topics[0].topic_id).partitions.add(
        partition=request.topics[0].partitions[0].partition
    )
    await stage.send(who, "share-leader", m.SHARE_FETCH, opening)


@abuse(NO_RIGHT, OTHER_RIGHT)
async def forged_secrets_and_headers(stage: Stage, who: str) -> None:
    """The cluster's own secret guessed, and names claimed in headers."""
    claims = (
        [("sharemesh-cluster-secret", "")],
        [("sharemesh-cluster-secret", "0" * 64)],
        [("x-user", "root"), ("x-user", "User:root")],
        [("x-forwarded-client-cert", "Subject=CN=root")],
        [("authorization", "Bearer root")],
    )
    for headers in claims:
        for role in ROLES:
            said = await stage.send(
                who, role, m.DESCRIBE_ACLS, admin_pb2.DescribeAclsRequest(), headers=headers
            )
            codes = error_codes(m.DESCRIBE_ACLS.response.FromString(said.data))
            assert codes != {0} or said.code is not grpc.StatusCode.OK, f"{headers} opened {role}"


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED, SAME_GROUP)
async def states_written_past_the_leader(stage: Stage, who: str) -> None:
    """The share coordinator is for the cluster alone."""
    for kind in ("Initialize", "Read", "Write", "Delete"):
        made = getattr(share_coordinator_pb2, f"{kind}ShareGroupStateRequest")(group_id=ALICES)
        made.topics.add(topic_id=stage.topic_ids[SECRET]).partitions.add(partition=0)
        method = getattr(m, f"{kind.upper()}_SHARE_GROUP_STATE")
        said = await stage.send(who, "share-coordinator", method, made)
        codes = error_codes(method.response.FromString(said.data))
        assert codes == {31}, f"{who}: {method.name} {codes}"
    commit = share_coordinator_pb2.CommitGenerationRequest(shard=0, path="../../run")
    await stage.send(who, "share-coordinator", m.COMMIT_GENERATION, commit)


def _consume(stage: Stage, group: str, member: str) -> ConsumeRequest:
    request = ConsumeRequest(credit_records=1_000, credit_bytes=1 << 20)
    request.start.group_id, request.start.member_id = group, member
    request.add.add(topic_id=stage.topic_ids[SECRET], partitions=[0, 1])
    return request


async def _produce(stage: Stage, *values: bytes) -> None:
    async with stage.client("root").async_producer() as producer:
        for value in values:
            await producer.send_and_wait(SECRET, value)


async def _revoked(stage: Stage, begin: Any) -> None:
    """Give rita her rights, let her begin, take them back; what is said then is looked through."""
    rules = (("read", "topic", SECRET), ("read", "group", ROOM), ("describe", "group", ROOM))
    stage.may_see = frozenset(stage.hidden)
    await stage.allow("rita", *rules)
    async with begin() as ended:
        await asyncio.sleep(0.5)
        await stage.forbid("rita")
        await asyncio.sleep(0.5)
        stage.may_see = frozenset()
        late = b"after rita's time"
        stage.hidden["what came after"] = (late,)
        await _produce(stage, late, late)
        await ended()
    del stage.hidden["what came after"]


@abuse(REVOKED, finding=3, once=True)
async def streams_of_those_who_may_no_more(stage: Stage, who: str) -> None:
    """An open Consume stream hears nothing that came after its right was taken."""

    @contextlib.asynccontextmanager
    async def begin() -> Any:
        request = _consume(stage, ROOM, "rita-stream")
        async with stage.stream(who, "share-leader", m.CONSUME, request) as call:

            async def rest() -> None:
                with contextlib.suppress(TimeoutError, grpc.aio.AioRpcError):
                    async with asyncio.timeout(1.5):
                        while (data := await call.read()) is not grpc.aio.EOF:
                            assert b"after rita's time" not in data, "delivered to the revoked"

            yield rest

    await _revoked(stage, begin)


@abuse(REVOKED, finding=3, once=True)
async def fetches_of_those_who_may_no_more(stage: Stage, who: str) -> None:
    """A fetch that waits gets nothing that came after its right was taken."""

    @contextlib.asynccontextmanager
    async def begin() -> Any:
        request = ShareFetchRequest(
            group_id=ROOM, member_id="rita-fetch", max_wait_ms=3_000, min_bytes=1 << 20,
            max_bytes=1 << 21, max_records=100,
        )  # fmt: skip
        request.topics.add(topic_id=stage.topic_ids[SECRET]).partitions.add(partition=0)
        waiting = asyncio.ensure_future(stage.send(who, "share-leader", m.SHARE_FETCH, request))

        async def rest() -> None:
            said = await waiting
            assert b"after rita's time" not in said.data, "delivered to the revoked"

        yield rest

    await _revoked(stage, begin)


@abuse(REVOKED, finding=3, once=True)
async def heartbeats_of_those_who_may_no_more(stage: Stage, who: str) -> None:
    """An open heartbeat stream is not told of new partitions any more."""

    @contextlib.asynccontextmanager
    async def begin() -> Any:
        joined = group_coordinator_pb2.ShareGroupHeartbeatRequest(
            group_id=ROOM, member_id="rita-heart"
        )
        joined.subscribed_topic_names.names.append(SECRET)
        method = m.SHARE_GROUP_HEARTBEAT_STREAM
        async with stage.stream(who, "group-coordinator", method, joined) as call:

            async def rest() -> None:
                codes: set[int] = set()
                with contextlib.suppress(TimeoutError, grpc.aio.AioRpcError):
                    async with asyncio.timeout(1.5):
                        while (data := await call.read()) is not grpc.aio.EOF:
                            codes.add(method.response.FromString(data).error_code)
                assert codes, "the stream heard nothing at all"

            yield rest

    await _revoked(stage, begin)


@abuse(REVOKED)
async def all_that_was_allowed_once(stage: Stage, who: str) -> None:
    """What rita could do, tried again."""
    fetch = ShareFetchRequest(group_id=ALICES, member_id="rita", max_bytes=1 << 20, max_records=9)
    fetch.topics.add(topic_id=stage.topic_ids[SECRET]).partitions.add(partition=0)
    answer = await stage.ask(who, "share-leader", m.SHARE_FETCH, fetch)
    assert answer.error_code == 30, f"fetched: {answer.error_code}"
    heard = await stage.heard(
        who, "share-leader", m.CONSUME, _consume(stage, ALICES, "rita"), for_s=0.5
    )
    assert all(m.CONSUME.response.FromString(each).error_code == 30 for each in heard)


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED, finding=14)
async def records_written_to_others(stage: Stage, who: str) -> None:
    """Produce by name and by id, to partitions that are there and not."""
    request = record_log_pb2.ProduceRequest()
    for name in (SECRET, "absent"):
        request.partitions.add(topic_name=name, partition=0).decoded_records.add(value=b"x")
    for partition in (0, 7):
        part = request.partitions.add(topic_id=stage.topic_ids[SECRET], partition=partition)
        part.decoded_records.add(value=b"x")
    answer = await stage.ask(who, "share-leader", m.PRODUCE, request)
    codes = [each.error_code for each in answer.partitions]
    assert codes == [29] * 4, f"{who}: {codes}"
    assert not any(each.topic_id for each in answer.partitions[:2]), "the id of a topic is told"


@abuse(NO_CERTIFICATE, finding=12, once=True)
async def files_read_by_another_user(stage: Stage, who: str) -> None:
    """No file of the cluster is open to others on the machine."""

    def opened() -> list[str]:
        return [
            str(path.relative_to(stage.work))
            for path in _under(stage.work / "data")
            if path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IXOTH)
        ]

    found = await asyncio.to_thread(opened)
    assert not found, f"others may open {found[:3]}"


def _under(directory: Path) -> list[Path]:
    found = [directory]
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            path.stat()
            found.append(path)
    return found
