"""Requests that are too large, of too many parts, too deep, or that swell."""

import gzip
import random
from typing import Any

import grpc

from sharemesh import methods as m
from sharemesh.codec.record_set import build_batch
from sharemesh.rpc.limits import MAX_MESSAGE_BYTES
from sharemesh.v1 import admin_pb2, record_log_pb2, share_leader_pb2
from tests.faults.abuse.abused_cluster import MALLOR, MINE, NO_RIGHT, OTHER_RIGHT, ROLES, Stage
from tests.faults.abuse.kinds import abuse, flood

MIB = 1 << 20
MANY = 1 << 19
"""Parts of two bytes: 1 MiB of them."""


def parts(field: int, count: int) -> bytes:
    """Return so many empty messages of a repeated field."""
    return bytes([field << 3 | 2, 0]) * count


@abuse(NO_RIGHT, OTHER_RIGHT, once=True)
async def messages_beyond_every_bound(stage: Stage, who: str) -> None:
    """A little more than any request may have, to each role."""
    data = bytes(MAX_MESSAGE_BYTES + 1_024)
    for role in ROLES[:2] if who == NO_RIGHT else ROLES[2:]:
        said = await stage.send(who, role, m.METADATA, data)
        assert said.code is grpc.StatusCode.RESOURCE_EXHAUSTED, f"{role}: {said.code}"


@abuse(NO_RIGHT, once=True)
async def produce_requests_of_20_mb_of_nothing(stage: Stage, who: str) -> None:
    """As large as Produce takes, as one unknown field."""
    size = 20 * MIB - 100
    unknown = b"\xfa\x07" + _varint(size - 10) + bytes(size - 10)
    await flood(stage, who, "share-leader", m.PRODUCE, [unknown] * 3, at_once=1)


@abuse(NO_RIGHT)
async def produce_requests_of_many_empty_partitions(stage: Stage, who: str) -> None:
    """Half a million partitions of two bytes."""
    await flood(stage, who, "share-leader", m.PRODUCE, [parts(1, MANY)] * 4, at_once=2)


@abuse(NO_RIGHT)
async def produce_requests_of_as_many_parts_as_pass(stage: Stage, who: str) -> None:
    """Partitions by the number that is just allowed, so that they are parsed."""
    most = m.PRODUCE.request_parts_max - 1
    await flood(stage, who, "share-leader", m.PRODUCE, [parts(1, most)] * 4, at_once=2)


@abuse(NO_RIGHT)
async def produce_requests_of_many_decoded_records(stage: Stage, who: str) -> None:
    """One partition with as many empty records as pass."""
    inner = parts(4, m.PRODUCE.request_parts_max - 10)
    data = b"\x0a" + _varint(len(inner)) + inner
    await flood(stage, who, "share-leader", m.PRODUCE, [data] * 4, at_once=2)


@abuse(NO_RIGHT)
async def metadata_requests_of_many_parts(stage: Stage, who: str) -> None:
    """Awaited leaders by the number that is just allowed."""
    most = m.METADATA.request_parts_max - 1
    for role in ("controller", "share-leader"):
        await flood(stage, who, role, m.METADATA, [parts(2, most)] * 4, at_once=2)


@abuse(NO_RIGHT)
async def fetches_of_many_parts(stage: Stage, who: str) -> None:
    """Topics of a fetch by the number that is just allowed."""
    data = parts(11, m.SHARE_FETCH.request_parts_max - 1)
    await flood(stage, who, "share-leader", m.SHARE_FETCH, [data] * 4, at_once=2)


@abuse(NO_RIGHT)
async def acknowledgements_of_many_parts(stage: Stage, who: str) -> None:
    """Topics of an acknowledgement by the number that is just allowed."""
    data = parts(5, m.SHARE_ACKNOWLEDGE.request_parts_max - 1)
    await flood(stage, who, "share-leader", m.SHARE_ACKNOWLEDGE, [data] * 4, at_once=2)


@abuse(NO_RIGHT)
async def offsets_of_many_parts(stage: Stage, who: str) -> None:
    """Groups of a question about offsets by the number that is just allowed."""
    data = parts(1, m.DESCRIBE_SHARE_GROUP_OFFSETS.request_parts_max - 1)
    method = m.DESCRIBE_SHARE_GROUP_OFFSETS
    await flood(stage, who, "group-coordinator", method, [data] * 4, at_once=2)


@abuse(NO_RIGHT)
async def messages_inside_each_other(stage: Stage, who: str) -> None:
    """Ten thousand groups inside each other, to each method."""
    for method in m.METHODS:
        if method.kind is m.StreamingKind.UNARY:
            await stage.send(who, "share-leader", method, b"\x0b" * 10_000)


@abuse(NO_RIGHT, OTHER_RIGHT)
async def random_bytes_to_every_method(stage: Stage, who: str) -> None:
    """Bytes that are no request, or by chance one of nothing."""
    rng = random.Random(7)
    for role in ROLES:
        for method in m.METHODS:
            if method.kind is m.StreamingKind.UNARY:
                await stage.send(who, role, method, rng.randbytes(rng.randrange(300)))


@abuse(NO_RIGHT)
async def text_that_is_no_utf_8(stage: Stage, who: str) -> None:
    """A first field whose text breaks off within a character."""
    for method in m.METHODS:
        if method.kind is m.StreamingKind.UNARY:
            await stage.send(who, "group-coordinator", method, b"\x0a\x04\xff\xfe\xc3\x28")


@abuse(NO_RIGHT)
async def methods_that_nobody_offers(stage: Stage, who: str) -> None:
    """Unknown names, some of them long."""
    for name in ("/sharemesh.v1.Admin/" + "x" * 4_000, "/" + "y" * 500, "/sharemesh.v1.Admin/"):
        said = await stage.send(who, "controller", name, b"")
        assert said.code is grpc.StatusCode.UNIMPLEMENTED, f"{name[:30]}: {said.code}"


@abuse(NO_RIGHT)
async def headers_without_end(stage: Stage, who: str) -> None:
    """More and longer headers than anybody needs."""
    for headers in ([("x-long", "v" * 100_000)], [(f"x-{n}", "v" * 30) for n in range(2_000)]):
        for role in ROLES:
            await stage.send(who, role, m.API_VERSIONS, b"", headers=headers, timeout_s=5.0)


@abuse(NO_RIGHT, once=True)
async def messages_that_swell_when_unpacked(stage: Stage, who: str) -> None:
    """Zeros compressed by gRPC: a hundred kilobytes of 80 MB."""
    channel = grpc.aio.secure_channel(
        stage.addresses["share-leader"],
        stage.credentials(who),
        options=[("grpc.max_send_message_length", -1)],
        compression=grpc.Compression.Gzip,
    )
    try:
        invoke: Any = channel.unary_unary(f"/sharemesh.v1.{m.PRODUCE.name}")
        await invoke(bytes(80 * MIB), timeout=30.0)
    except grpc.aio.AioRpcError as error:
        code = error.code()
    else:
        code = grpc.StatusCode.OK
    finally:
        await channel.close()
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED, f"a request of 80 MiB: {code}"


@abuse(OTHER_RIGHT, once=True)
async def records_that_swell_when_unpacked(stage: Stage, who: str) -> None:
    """A batch whose one record unpacks to 40 MB, asked for in the decoded form."""
    topic = stage.topic_ids[MINE]
    records = bytes(build_batch([(None, bytes(40 * MIB), ())], timestamp_ms=-1, compression=1))
    assert len(records) < len(gzip.compress(bytes(40 * MIB))) * 2
    request = record_log_pb2.ProduceRequest()
    request.partitions.add(topic_id=topic, partition=1, records=records)
    await stage.send(who, "share-leader", m.PRODUCE, request)
    fetch = share_leader_pb2.ShareFetchRequest(
        group_id=MALLOR + "-swell",
        member_id="swell",
        max_bytes=1 << 20,
        max_records=10,
        record_format=share_leader_pb2.RECORD_FORMAT_DECODED,
    )
    fetch.topics.add(topic_id=topic).partitions.add(partition=1)
    await stage.send(who, "share-leader", m.SHARE_FETCH, fetch)


@abuse(NO_RIGHT, finding=4)
async def names_of_a_megabyte(stage: Stage, who: str) -> None:
    """Topics of a million characters, a new one with each question."""
    stage.said["named"] = number = stage.said.get("named", 0) + 1
    requests = [
        admin_pb2.DescribeTopicsRequest(names=[f"{number}-{each}-" + "n" * 1_000_000])
        for each in range(20)
    ]
    await flood(stage, who, "controller", m.DESCRIBE_TOPICS, requests, at_once=2)


@abuse(NO_RIGHT)
async def groups_of_a_megabyte(stage: Stage, who: str) -> None:
    """The same for groups, at their coordinators."""
    requests = [
        admin_pb2.FindCoordinatorRequest(keys=[f"{each}" + "g" * 1_000_000]) for each in range(20)
    ]
    await flood(stage, who, "group-coordinator", m.FIND_COORDINATOR, requests, at_once=2)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])
