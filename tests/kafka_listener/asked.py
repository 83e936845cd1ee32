"""What tests ask of the listener: requests by key, a producer and a share consumer in bytes."""

from sharemesh.codec.decoded_records import encode_records
from sharemesh.kafka.messages import milliseconds
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.decoding import decode_records
from tests.kafka_listener.world import EARLIEST

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


async def produce(client, topic_id, *values, acks=ALL, partition=0, records=None):
    part = {"index": partition, "records": records or batch(*values)}
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

    async def join(self, topic="orders"):
        return await self.client.ask(
            HEARTBEAT,
            1,
            **self.who,
            member_epoch=0,
            rack_id=None,
            subscribed_topic_names=(topic,),
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
