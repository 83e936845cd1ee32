"""ListOffsets through the listener, frame by frame."""

import pytest

from sharemesh.codec.decoded_records import encode_records
from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import milliseconds
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.kafka_listener.asked import LIST_OFFSETS, METADATA, orders, produce
from tests.kafka_listener.logins import add_user, log_in
from tests.kafka_listener.test_topic_requests import DELETE_RECORDS
from tests.kafka_listener.world import ListeningMesh

ROOT = "User:root"


@pytest.mark.parametrize("version", range(1, 12))
async def test_the_ends_of_a_partition_are_listed(version):
    """KLS-17."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        await produce(client, topic_id, b"a", b"b", b"c")

        async def listed(timestamp, name="orders", partition=0, isolation=0):
            part = {"partition_index": partition, "timestamp": timestamp}
            told = await client.ask(
                LIST_OFFSETS,
                version,
                replica_id=-1,
                isolation_level=isolation,
                topics=[{"name": name, "partitions": [part]}],
                timeout=milliseconds(1_000),
            )
            [found] = told.topics[0].partitions
            return int(found.error_code), found.offset

        assert await listed(-1) == (0, 3)
        assert await listed(-1, isolation=1) == (0, 3)
        assert await listed(-2) == (0, 0)
        assert await listed(0) == (0, 0)
        assert await listed(4_000_000_000_000) == (0, -1)
        unknown = (35, -1)  # UNSUPPORTED_VERSION, measured at Kafka 4.4
        for timestamp, since, offset in ((-3, 7, 0), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1)):
            expected = unknown if version < since else (0, offset)
            assert await listed(timestamp) == expected
        assert await listed(-7) == unknown
        assert await listed(-(2**63)) == unknown
        assert (await listed(-1, name="nowhere"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await listed(-1, partition=9))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_partition_that_is_asked_for_twice_is_refused_and_others_are_listed():
    """KLS-17."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh, 2)
        await produce(client, topic_id, b"a", b"b", b"c")

        async def listed(*numbers):
            parts = [{"partition_index": each, "timestamp": -1} for each in numbers]
            told = await client.ask(
                LIST_OFFSETS,
                5,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": "orders", "partitions": parts}],
            )
            return [(int(each.error_code), each.offset) for each in told.topics[0].partitions]

        twice = (ErrorCode.INVALID_REQUEST, -1)
        assert await listed(1, 0, 1) == [twice, (0, 3), twice]
        assert await listed(1, 1) == [twice, twice]


@pytest.mark.parametrize("version", [4, 11])
async def test_a_leader_epoch_that_is_over_or_not_known_yet_is_told(version):
    """KLS-17, FET-2."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)

        async def listed(epoch):
            part = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": epoch}
            told = await client.ask(
                LIST_OFFSETS,
                version,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": "orders", "partitions": [part]}],
                timeout=milliseconds(1_000),
            )
            [found] = told.topics[0].partitions
            return int(found.error_code)

        told = await client.ask(METADATA, 12, topics=[{"name": "orders", "topic_id": None}])
        epoch = told.topics[0].partitions[0].leader_epoch
        assert [await listed(each) for each in (-1, epoch)] == [0, 0]
        assert await listed(epoch - 1) == ErrorCode.FENCED_LEADER_EPOCH
        assert await listed(epoch + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("timestamps", [(), (5,), (5, 7, 3, 7, 6), (1_700_000_000_000, 0, 5)])
async def test_the_largest_timestamp_is_found_wherever_it_is(timestamps):
    """KLS-17: its first record; nothing where there is none."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        for each in timestamps:
            records = encode_records([DecodedRecord(value=b"a")], default_timestamp_ms=each)
            await produce(client, topic_id, records=records)
        told = await client.ask(
            LIST_OFFSETS,
            11,
            replica_id=-1,
            isolation_level=0,
            topics=[{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -3}]}],
            timeout=milliseconds(1_000),
        )
        [found] = told.topics[0].partitions
        largest = max(timestamps, default=-1)
        assert (int(found.error_code), found.timestamp) == (0, largest)
        assert found.offset == (timestamps.index(largest) if timestamps else -1)
        assert (found.leader_epoch >= 0) == bool(timestamps)


@pytest.mark.parametrize("timestamp", [-1, -2, -3, -5, -7, 0])
async def test_who_may_not_see_a_topic_does_not_learn_that_it_is_there(timestamp):
    """AUT-1, KLS-1: names are looked up behind the right on them."""
    async with ListeningMesh(mechanisms=["PLAIN"], super_users=[ROOT]) as mesh:
        await mesh.admin().create_topic("secret", 2)
        await add_user(mesh, "eve")
        async with mesh.connect() as eve:
            await log_in(eve, "PLAIN", "eve")
            part = {"partition_index": 0, "timestamp": timestamp}
            told = await eve.ask(
                LIST_OFFSETS,
                6,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": name, "partitions": [part]} for name in ("secret", "absent")],
            )
            codes = [int(each.partitions[0].error_code) for each in told.topics]
            assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
            trimmed = await eve.ask(
                DELETE_RECORDS,
                2,
                topics=[
                    {"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}
                    for name in ("secret", "absent")
                ],
                timeout=milliseconds(1_000),
            )
            codes = [int(each.partitions[0].error_code) for each in trimmed.topics]
            assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
