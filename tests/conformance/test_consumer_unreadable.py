"""Section Q, records that cannot be handed out: undeserializable, corrupt, control records."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import AcknowledgeType, ShareConsumer
from sharemesh.client.errors import (
    CorruptRecordError,
    IllegalStateError,
    RecordDeserializationError,
)
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.v1 import admin_pb2, record_log_pb2
from tests.conformance.tcp_proxy import flip_last_byte, tapped_environment

pytestmark = [pytest.mark.integration, pytest.mark.slow]

A = AcknowledgeType


def values(result) -> list:
    return list(result.values())


def number(data: bytes) -> int:
    return int(data)


@pytest.mark.scenario("CL-S13", "CL-S14")
def test_an_undeserializable_record_is_released_unless_overridden(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 2)
    world.producer.send(topic, b"bad").result(20)
    consumer = world.explicit(topic, group, value_deserializer=number)
    records = []
    while len(records) < 2:
        records += (batch := consumer.poll(2_000))
        for record in batch:
            consumer.acknowledge(record)
    consumer.commit_sync()
    with pytest.raises(RecordDeserializationError) as caught:
        consumer.poll(5_000)
    assert caught.value.offset == 2
    consumer.commit_sync()
    with pytest.raises(RecordDeserializationError):
        consumer.poll(5_000)
    for wrong in ((topic, 0, 1), ("other", 0, 2), (topic, 1, 2), (topic, 0, 3)):
        with pytest.raises(IllegalStateError):
            consumer.acknowledge_offset(*wrong, A.REJECT)
    consumer.acknowledge_offset(topic, 0, 2, A.REJECT)
    consumer.commit_sync()
    with pytest.raises(IllegalStateError):
        consumer.acknowledge_offset(topic, 0, 2, A.REJECT)
    assert consumer.poll(300) == []


@pytest.mark.scenario("CL-S15")
def test_a_corrupt_batch_is_rejected_unless_overridden(world):
    topic = world.topic()
    world.produce(topic, 1)

    def corrupt_consumer(group: str) -> ShareConsumer:
        config = {
            "bootstrap.servers": world.bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
        }
        consumer = ShareConsumer(config, environment=tapped_environment(received=flip_last_byte))
        consumer.subscribe([topic])
        return consumer

    overridden = corrupt_consumer(world.group())
    with pytest.raises(CorruptRecordError):
        overridden.poll(10_000)
    overridden.acknowledge_offset(topic, 0, 0, A.RELEASE)
    with pytest.raises(CorruptRecordError):
        overridden.poll(10_000)
    overridden.close()
    group = world.group()
    rejected = corrupt_consumer(group)
    with pytest.raises(CorruptRecordError):
        rejected.poll(10_000)
    assert values(rejected.commit_sync()) == [None]
    assert rejected.poll(300) == []
    rejected.close()
    assert world.lag(group, topic) == 0


async def _write_control_record(bootstrap: str, topic: str) -> int:
    """End a transaction that wrote nothing, so that its marker is all that the log holds.

    Returns the error code: the topic is new, its leader may not be ready.
    """
    caller = GrpcCaller(SystemClock())
    request = admin_pb2.MetadataRequest(topics=admin_pb2.TopicNames(names=[topic]))
    found = await caller.call(methods.METADATA, request, to=bootstrap.partition(",")[0])
    leader_id = found.topics[0].partitions[0].leader_id
    (leader,) = [f"{n.host}:{n.port}" for n in found.nodes if n.node_id == leader_id]
    wanted = record_log_pb2.InitProducerIdRequest(producer_id=-1, producer_epoch=-1)
    producer = await caller.call(methods.INIT_PRODUCER_ID, wanted, to=leader)
    marker = record_log_pb2.TxnMarker(
        producer_id=producer.producer_id, commit=True, topic_id=found.topics[0].topic_id
    )
    done = await caller.call(
        methods.WRITE_TXN_MARKERS,
        record_log_pb2.WriteTxnMarkersRequest(markers=[marker]),
        to=leader,
    )
    await caller.close()
    return done.results[0].error_code


@pytest.mark.scenario("CL-S44")
def test_a_control_record_alone_is_acknowledged_as_a_gap(world):
    topic, group = world.topic(), world.group()
    world.until(lambda: asyncio.run(_write_control_record(world.bootstrap, topic)) == 0)
    assert world.end(topic) == 1
    sent = []

    def note(message) -> None:
        for acknowledge in getattr(message, "acknowledgements", ()):
            for named in acknowledge.topics:
                for partition in named.partitions:
                    sent.extend(
                        (b.first_offset, b.last_offset, list(b.acknowledge_types))
                        for b in partition.acknowledgement_batches
                    )

    config = {"bootstrap.servers": world.bootstrap, "group.id": group}
    with ShareConsumer(config, environment=tapped_environment(sent=note)) as consumer:
        consumer.subscribe([topic])
        world.until(lambda: consumer.poll(200) == [] and sent)
        assert sent == [(0, 0, [0])]
        world.until(lambda: world.lag(group, topic) == 0)
