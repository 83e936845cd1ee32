"""Kafka's requests through the listener to the handlers of a mesh in memory, frame by frame."""

import asyncio
import base64
import itertools
import struct
from uuid import UUID

import pytest

from sharemesh.codec.decoded_records import decode_records, encode_records
from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import error_code, milliseconds
from sharemesh.telemetry import names
from sharemesh.testing.mesh_node import CLUSTER_ID
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.kafka_listener.world import EARLIEST, NO_ERROR, ListeningMesh

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 0, 1, 2, 3, 10
INIT_PRODUCER_ID, DESCRIBE_CLUSTER, HEARTBEAT, SHARE_FETCH, SHARE_ACKNOWLEDGE = 22, 60, 76, 78, 79
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
ALL, NONE = -1, 0


def batch(*values):
    records = [DecodedRecord(value=each) for each in values]
    return encode_records(records, default_timestamp_ms=1_700_000_000_000)


async def orders(mesh, partitions=1):
    """Create the topic; return its id as messages have it."""
    admin = mesh.mesh.admin()
    await admin.create_topic("orders", partitions)
    await admin.alter_group_configs("g", EARLIEST)
    await mesh.mesh.leader("orders", partitions - 1)
    async with mesh.connect() as client:
        told = await client.ask(METADATA, 13, topics=[{"name": "orders", "topic_id": None}])
    return told.topics[0].topic_id


async def produce(client, topic_id, *values, acks=ALL, partition=0):
    part = {"index": partition, "records": batch(*values)}
    told = await client.ask(
        PRODUCE,
        13,
        transactional_id=None,
        acks=acks,
        timeout=milliseconds(5_000),
        topic_data=[{"topic_id": topic_id, "partition_data": [part]}],
    )
    return told.responses[0].partition_responses[0]


class ShareClient:
    """A share consumer in bytes, on one connection."""

    def __init__(self, client, topic_id, member="m", version=2):
        self.client = client
        self.topic_id = topic_id
        self.who = {"group_id": "g", "member_id": member}
        self.epoch = 0
        self.version = version

    async def join(self):
        return await self.client.ask(
            HEARTBEAT,
            1,
            **self.who,
            member_epoch=0,
            rack_id=None,
            subscribed_topic_names=("orders",),
        )

    def _topics(self, batches, partitions):
        parts = [
            {"partition_index": each, "acknowledgement_batches": batches} for each in partitions
        ]
        return [{"topic_id": self.topic_id, "partitions": parts}] if parts else []

    def _next(self):
        epoch, self.epoch = self.epoch, self.epoch + 1
        return epoch

    async def fetch(self, *, add=(), batches=(), wait_ms=500, renew=False, epoch=None):
        bound = 0 if renew else 1
        return await self.client.ask(
            SHARE_FETCH,
            self.version,
            **self.who,
            share_session_epoch=self._next() if epoch is None else epoch,
            max_wait=milliseconds(wait_ms * bound),
            min_bytes=bound,
            max_bytes=50_000_000 * bound,
            max_records=500 * bound,
            batch_size=500 * bound,
            share_acquire_mode=0,
            is_renew_ack=renew,
            topics=self._topics(batches, (0,) if batches else add),
            forgotten_topics_data=[],
        )

    async def acknowledge(self, *batches, renew=False, epoch=None):
        return await self.client.ask(
            SHARE_ACKNOWLEDGE,
            self.version,
            **self.who,
            share_session_epoch=self._next() if epoch is None else epoch,
            is_renew_ack=renew,
            topics=self._topics(batches, (0,) if batches else ()),
        )


def ack(first, last, *types):
    return {"first_offset": first, "last_offset": last, "acknowledge_types": types}


def given(told):
    """Return (values, delivery counts by range) of the only partition of an answer."""
    if not told.responses:
        return [], []
    [part] = told.responses[0].partitions
    ranges = [(e.first_offset, e.last_offset, e.delivery_count) for e in part.acquired_records]
    records = decode_records(bytes(part.records), ranges) if ranges else []
    return [each.value for each in records], [count for _, _, count in ranges]


# ---- where things are ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(14))
async def test_metadata_names_leaders_by_number_in_every_version(version):
    """KLS-10."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh, 2)
        told = await client.ask(METADATA, version, topics=[{"name": "orders", "topic_id": None}])
        assert [(each.node_id, each.host, each.port) for each in told.brokers] == [
            (7, "127.0.0.1", mesh.port)
        ]
        [topic] = told.topics
        assert (topic.name, topic.error_code) == ("orders", NO_ERROR)
        assert [(e.partition_index, e.leader_id, e.replica_nodes) for e in topic.partitions] == [
            (0, 7, (7,)),
            (1, 7, (7,)),
        ]
        if version >= 2:
            assert told.cluster_id == CLUSTER_ID


@pytest.mark.parametrize("version", range(14))
async def test_all_topics_are_asked_for_by_no_list(version):
    """KLS-10: in version 0 by an empty one."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        everything = await client.ask(METADATA, version, topics=() if version == 0 else None)
        assert [each.name for each in everything.topics] == ["orders"]
        if version > 0:
            assert not (await client.ask(METADATA, version, topics=())).topics


async def test_topics_may_be_asked_for_by_id():
    """KLS-10: librdkafka does."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        unknown = UUID(int=99)
        asked = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": unknown}]
        known, missing = (await client.ask(METADATA, 13, topics=asked)).topics
        assert (known.name, known.topic_id, known.error_code) == ("orders", topic_id, NO_ERROR)
        assert missing.error_code == error_code(ErrorCode.UNKNOWN_TOPIC_ID)
        assert (missing.name, missing.topic_id) == (None, unknown)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("topic abc", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_a_topic_that_is_not_there_is_not_created(name, code):
    """KLS-10."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        for _ in range(2):
            told = await client.ask(
                METADATA,
                13,
                topics=[{"name": name, "topic_id": None}],
                allow_auto_topic_creation=True,
            )
            assert told.topics[0].error_code == error_code(code)


async def test_a_leader_without_a_listener_is_none_for_clients_of_kafka():
    """KLS-10."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        mesh.view.endpoints.clear()
        told = await client.ask(METADATA, 13, topics=[{"name": "orders", "topic_id": None}])
        [partition] = told.topics[0].partitions
        assert partition.error_code == error_code(ErrorCode.LEADER_NOT_AVAILABLE)
        assert (partition.leader_id, told.controller_id, told.brokers) == (-1, -1, ())
        found = await client.ask(FIND_COORDINATOR, 6, key_type=0, coordinator_keys=("g",))
        [coordinator] = found.coordinators
        assert coordinator.error_code == error_code(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert "kafka_listener_port" in coordinator.error_message


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 2])
async def test_coordinators_of_groups_and_share_partitions_are_found(version, key_type):
    """KLS-10."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        if version == 0 and key_type:
            return  # it knows groups only
        text = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
        key = f"g:{text}:0" if key_type else "g"
        told = await client.ask(
            FIND_COORDINATOR, version, key=key, key_type=key_type, coordinator_keys=(key,)
        )
        found = told.coordinators[0] if version >= 4 else told
        assert (found.error_code, found.node_id, found.port) == (NO_ERROR, 7, mesh.port)


async def test_a_transaction_has_no_coordinator():
    """KLS-10, KLS-11: said at once, so that producers do not wait for one."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        told = await client.ask(FIND_COORDINATOR, 6, key_type=1, coordinator_keys=("tx",))
        assert told.coordinators[0].error_code == error_code(ErrorCode.INVALID_REQUEST)
        assert "no transaction coordinator" in told.coordinators[0].error_message
        producer = await client.ask(
            INIT_PRODUCER_ID,
            5,
            transactional_id="tx",
            transaction_timeout=milliseconds(1),
            producer_id=-1,
            producer_epoch=-1,
        )
        assert producer.error_code == error_code(ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_cluster_is_described(version):
    """KLS-10."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        told = await client.ask(
            DESCRIBE_CLUSTER,
            version,
            include_cluster_authorized_operations=False,
            endpoint_type=1,
            include_fenced_brokers=False,
        )
        assert (told.cluster_id, told.controller_id) == (CLUSTER_ID, 7)
        assert [each.broker_id for each in told.brokers] == [7]


# ---- producing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 14))
async def test_records_are_appended_in_every_version(version):
    """KLS-11: topics by name, and by id from version 13 on."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        for offset in (0, 2):
            part = {"index": 0, "records": batch(b"a", b"b")}
            topic = {"topic_id": topic_id, "name": "orders", "partition_data": [part]}
            told = await client.ask(
                PRODUCE,
                version,
                transactional_id=None,
                acks=1,
                timeout=milliseconds(1_000),
                topic_data=[topic],
            )
            [result] = told.responses[0].partition_responses
            assert (result.error_code, result.base_offset) == (NO_ERROR, offset)


@pytest.mark.parametrize(
    ("version", "topic", "code"),
    [
        (12, {"name": "nowhere"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (13, {"topic_id": None}, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
async def test_a_batch_for_an_unknown_topic_is_refused_alone(version, topic, code):
    """KLS-11."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        good = {"name": "orders", "topic_id": topic_id}
        part = {"index": 0, "records": batch(b"a")}
        told = await client.ask(
            PRODUCE,
            version,
            transactional_id=None,
            acks=ALL,
            timeout=milliseconds(1_000),
            topic_data=[{**each, "partition_data": [part]} for each in (topic, good)],
        )
        errors = [each.partition_responses[0].error_code for each in told.responses]
        assert errors == [error_code(code), NO_ERROR]


async def test_a_producer_that_wants_no_answer_gets_none_unless_it_failed():
    """KLS-11."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)

        def send(partition):
            part = {"index": partition, "records": batch(b"a")}
            client.send(
                PRODUCE,
                13,
                transactional_id=None,
                acks=NONE,
                timeout=milliseconds(1_000),
                topic_data=[{"topic_id": topic_id, "partition_data": [part]}],
            )

        send(0)
        assert (await produce(client, topic_id, b"b")).base_offset == 1
        send(5)
        assert await client.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("unanswered",): 1}


async def test_another_number_of_acknowledgements_is_refused():
    """KLS-11."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        result = await produce(client, await orders(mesh), b"a", acks=2)
        assert result.error_code == error_code(21)


@pytest.mark.parametrize("version", range(6))
async def test_idempotent_producers_get_ids(version):
    """KLS-11."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        asked = {
            "transactional_id": None,
            "transaction_timeout": milliseconds(-1),
            "producer_id": -1,
            "producer_epoch": -1,
        }
        first, second = [await client.ask(INIT_PRODUCER_ID, version, **asked) for _ in range(2)]
        assert (first.error_code, first.producer_epoch) == (NO_ERROR, 0)
        assert first.producer_id != second.producer_id


async def test_a_process_that_is_no_share_leader_asks_one_for_a_producer_id():
    """KLS-11: clients ask whom they like."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        mesh.listener._answers._node_id = "another"
        mesh.listener.handlers._unary = {}
        asked = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
        for _ in range(2):
            told = await client.ask(
                INIT_PRODUCER_ID, 4, transaction_timeout=milliseconds(-1), **asked
            )
            assert (told.error_code, told.producer_epoch) == (NO_ERROR, 0)
        mesh.view.nodes = lambda: ()
        told = await client.ask(INIT_PRODUCER_ID, 4, transaction_timeout=milliseconds(-1), **asked)
        assert told.error_code == error_code(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


# ---- offsets and what is not there --------------------------------------------------------------


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
        assert await listed(-4) == (0, 0)
        assert await listed(-5) == (0, -1)
        assert await listed(0) == (0, 0)
        assert await listed(4_000_000_000_000) == (0, -1)
        assert (await listed(-3))[0] == ErrorCode.INVALID_REQUEST
        assert (await listed(-1, name="nowhere"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await listed(-1, partition=9))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
async def test_a_fetch_is_refused_partition_by_partition(version):
    """KLS-18."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
        told = await client.ask(
            FETCH,
            version,
            replica_id=-1,
            max_wait=milliseconds(0),
            min_bytes=1,
            max_bytes=1_000,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic": "orders", "topic_id": topic_id, "partitions": [part]}],
            forgotten_topics_data=[],
        )
        [refused] = told.responses[0].partitions
        assert refused.error_code == error_code(ErrorCode.UNSUPPORTED_VERSION)


# ---- share groups -------------------------------------------------------------------------------


async def test_the_first_answer_to_a_member_has_its_assignment():
    """KLS-15."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh, 2)
        member = ShareClient(client, topic_id)
        told = await member.join()
        assert (told.error_code, told.member_id) == (NO_ERROR, "m")
        assert told.heartbeat_interval == milliseconds(5_000)
        [assigned] = told.assignment.topic_partitions
        assert (assigned.topic_id, sorted(assigned.partitions)) == (topic_id, [0, 1])
        again = await client.ask(
            HEARTBEAT,
            1,
            **member.who,
            member_epoch=told.member_epoch,
            rack_id=None,
            subscribed_topic_names=None,
        )
        assert (again.error_code, again.assignment) == (NO_ERROR, None)
        left = await client.ask(
            HEARTBEAT, 1, **member.who, member_epoch=-1, rack_id=None, subscribed_topic_names=()
        )
        assert (left.error_code, left.member_epoch) == (NO_ERROR, -1)


async def test_a_member_of_an_unknown_epoch_is_fenced():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        member = ShareClient(client, await orders(mesh))
        await member.join()
        told = await client.ask(
            HEARTBEAT, 1, **member.who, member_epoch=99, rack_id=None, subscribed_topic_names=None
        )
        assert told.error_code == error_code(ErrorCode.FENCED_MEMBER_EPOCH)


@pytest.mark.parametrize("version", [1, 2])
async def test_records_are_fetched_and_acknowledged_with_the_next_fetch(version):
    """KLS-14: the first answer lists every partition, later ones what is new."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id, version=version)
        await member.join()
        empty = await member.fetch(add=(0,), wait_ms=0)
        assert empty.acquisition_lock_timeout == milliseconds(30_000)
        assert [each.partition_index for each in empty.responses[0].partitions] == [0]
        assert given(empty) == ([], [])
        await produce(client, topic_id, b"a", b"b")
        assert given(await member.fetch()) == ([b"a", b"b"], [1])
        told = await member.fetch(batches=[ack(0, 1, ACCEPT)], wait_ms=0)
        [part] = told.responses[0].partitions
        assert (part.error_code, part.acknowledge_error_code) == (NO_ERROR, 0)
        assert not (await member.fetch(wait_ms=0)).responses


async def test_accepted_released_and_rejected_records_of_one_batch():
    """KLS-14: one type for each offset."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await produce(client, topic_id, b"a", b"b", b"c")
        assert given(await member.fetch(add=(0,)))[0] == [b"a", b"b", b"c"]
        told = await member.acknowledge(ack(0, 2, ACCEPT, RELEASE, REJECT))
        assert told.error_code == NO_ERROR
        [part] = told.responses[0].partitions
        assert part.error_code == NO_ERROR
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (0, 0)
        assert given(await member.fetch()) == ([b"b"], [2])


async def test_a_renewed_record_stays_with_its_member():
    """KLS-14: a fetch that renews brings nothing."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await produce(client, topic_id, b"a")
        assert given(await member.fetch(add=(0,)))[0] == [b"a"]
        for seconds in (20, 20):
            await mesh.mesh.clock.advance(seconds)
            renewed = await member.fetch(batches=[ack(0, 0, RENEW)], renew=True)
            [part] = renewed.responses[0].partitions
            assert (part.acknowledge_error_code, given(renewed)) == (0, ([], []))
        renewed = await member.acknowledge(ack(0, 0, RENEW), renew=True)
        assert renewed.responses[0].partitions[0].error_code == NO_ERROR
        done = await member.acknowledge(ack(0, 0, ACCEPT))
        assert done.responses[0].partitions[0].error_code == NO_ERROR


async def test_an_acknowledgement_of_a_lost_lock_is_refused():
    """KLS-14."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await produce(client, topic_id, b"a")
        await member.fetch(add=(0,))
        await mesh.mesh.clock.advance(31)
        told = await member.acknowledge(ack(0, 0, ACCEPT))
        [part] = told.responses[0].partitions
        assert part.error_code == error_code(ErrorCode.INVALID_RECORD_STATE)


async def test_sessions_have_epochs():
    """KLS-14: 122 and 123 are what clients open a session anew for."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        member = ShareClient(client, await orders(mesh))
        await member.join()
        missing = await member.fetch(epoch=5)
        assert missing.error_code == error_code(ErrorCode.SHARE_SESSION_NOT_FOUND)
        await member.fetch(add=(0,), wait_ms=0)
        late = await member.fetch(epoch=5)
        assert late.error_code == error_code(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        assert not late.responses


async def test_a_lost_connection_ends_its_session_and_frees_the_records():
    """KLS-13, SES-12: long before their locks expire."""
    async with ListeningMesh() as mesh, mesh.connect() as other:
        topic_id = await orders(mesh)
        async with mesh.connect() as client:
            member = ShareClient(client, topic_id, "lost")
            await member.join()
            await produce(client, topic_id, b"a")
            assert given(await member.fetch(add=(0,)))[0] == [b"a"]
            [connection] = [each for each in mesh.listener._open if len(each.sessions)]
        second = ShareClient(other, topic_id, "second")
        await second.join()
        assert given(await second.fetch(add=(0,), wait_ms=5_000))[0] == [b"a"]
        await mesh.until(lambda: not len(connection.sessions))


async def test_a_session_that_its_member_ends_is_held_no_more():
    """KLS-13: what it held comes back uncounted."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await produce(client, topic_id, b"a")
        await member.fetch(add=(0,))
        [connection] = mesh.listener._open
        assert len(connection.sessions) == 1
        told = await member.acknowledge(epoch=-1)
        assert told.error_code == NO_ERROR
        await mesh.until(lambda: not len(connection.sessions))
        again = ShareClient(client, topic_id)
        assert given(await again.fetch(add=(0,)))[0] == [b"a"]
        assert len(connection.sessions) == 1


async def test_a_connection_has_a_bounded_number_of_sessions():
    """KLS-13."""
    async with ListeningMesh(max_held_sessions=2) as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        answers = []
        for name in ("a", "b", "c"):
            member = ShareClient(client, topic_id, name)
            await member.join()
            answers.append(await member.fetch(add=(0,), wait_ms=0))
        assert [int(each.error_code) for each in answers] == [0, 0, 133]
        assert "a connection for each consumer" in answers[-1].error_message


async def test_a_fetch_waits_for_records_that_come():
    async with ListeningMesh() as mesh, mesh.connect() as client, mesh.connect() as producer:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await member.fetch(add=(0,), wait_ms=0)
        waiting = asyncio.ensure_future(member.fetch(wait_ms=20_000))
        await asyncio.sleep(0.01)
        await produce(producer, topic_id, b"late")
        assert given(await waiting)[0] == [b"late"]


async def test_a_session_that_is_opened_right_behind_the_end_of_the_last_one_is_held():
    """KLS-13: the end of the old one does not take the new one with it."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await produce(client, topic_id, b"a")
        await member.fetch(add=(0,))
        [connection] = mesh.listener._open
        end = {"share_session_epoch": -1, "is_renew_ack": False, "topics": []}
        ended = client.send(SHARE_ACKNOWLEDGE, 2, **member.who, **end)
        again = ShareClient(_Behind(client, (SHARE_ACKNOWLEDGE, 2, ended)), topic_id)
        assert given(await again.fetch(add=(0,)))[0] == [b"a"]
        told = await again.fetch(batches=(ack(0, 0, ACCEPT),), wait_ms=0)
        assert told.error_code == NO_ERROR
        assert told.responses[0].partitions[0].acknowledge_error_code == NO_ERROR
        assert len(connection.sessions) == 1


class _Behind:
    """A connection whose first request goes out before the answer of another one is read."""

    def __init__(self, client, before):
        self._client = client
        self._before = before

    async def ask(self, key, version, /, **content):
        correlation = self._client.send(key, version, **content)
        before, self._before = self._before, None
        if before is not None:
            await self._client.answer(*before)
        return await self._client.answer(key, version, correlation)


async def test_a_topic_that_comes_while_its_offsets_are_asked_for_was_not_there():
    """KLS-17: names are looked up once, so that each result stays with its partition."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        await produce(client, topic_id, b"a", b"b")
        known = mesh.view.topic_named("orders")
        looks = itertools.count()

        def topic_named(name):
            if name == "orders":
                return known
            return known if next(looks) else None

        mesh.view.topic_named = topic_named
        part = {"partition_index": 0, "timestamp": -1}
        told = await client.ask(
            LIST_OFFSETS,
            11,
            replica_id=-1,
            isolation_level=0,
            topics=[{"name": name, "partitions": [part]} for name in ("new", "orders")],
            timeout=milliseconds(1_000),
        )
        found = [(int(e.error_code), e.offset) for t in told.topics for e in t.partitions]
        assert found == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1), (0, 2)]


MANY = 20_000
PART = {"index": 0, "records": b"", "partition_index": 0, "timestamp": -1}


@pytest.mark.parametrize(
    ("key", "version", "content"),
    [
        (FIND_COORDINATOR, 6, {"key_type": 1, "coordinator_keys": ("",) * (MANY + 1)}),
        (METADATA, 1, {"topics": [{"name": ""}] * (MANY + 1)}),
        (
            LIST_OFFSETS,
            1,
            {"replica_id": -1, "topics": [{"name": "a", "partitions": [PART] * MANY}]},
        ),
        (
            PRODUCE,
            3,
            {
                "transactional_id": None,
                "acks": ALL,
                "timeout": milliseconds(1_000),
                "topic_data": [{"name": "a", "partition_data": [PART] * MANY}],
            },
        ),
    ],
)
async def test_a_request_that_names_too_much_gets_no_entry_for_each(key, version, content):
    """KLS-4."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        client.send(key, version, **content)
        assert await client.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("too_many_parts",): 1}


async def test_a_request_may_name_many_things():
    """KLS-4."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        keys = ("",) * MANY
        told = await client.ask(FIND_COORDINATOR, 6, key_type=1, coordinator_keys=keys)
        assert len(told.coordinators) == MANY


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (FIND_COORDINATOR, 6, b"\0\0\0"),  # type, keys, tags
        (LIST_OFFSETS, 9, b"\xff\xff\xff\xff\0\0\0"),  # replica, isolation, topics, tags
        (LIST_OFFSETS, 9, b"\xff\xff\xff\xff\0\2\2a\0\0\0"),  # partitions of a topic
        (PRODUCE, 9, b"\0\xff\xff\0\0\0\0\0\0"),  # id, acks, timeout, topics, tags
        (SHARE_ACKNOWLEDGE, 1, b"\2g\2m\0\0\0\0\0\0"),  # who, epoch, topics, tags
        (METADATA, 10, b"\2" + b"t" * 16 + bytes(6)),  # topics: id, name, tags; flags, tags
    ],
)
async def test_null_where_none_may_be_is_no_request(key, version, body):
    """KLS-4."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        frame = struct.pack(">hhihB", key, version, 1, -1, 0) + body
        client.writer.write(struct.pack(">i", len(frame)) + frame)
        assert await client.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("malformed",): 1}
