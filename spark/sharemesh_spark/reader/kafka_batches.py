"""When records were appended to topics of a Kafka cluster: the headers of their batches."""

from collections.abc import Iterator, Sequence

from sharemesh.codec.batch_frame import walk_frames
from sharemesh.domain.ids import TopicId, format_topic_id
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.ports.brokers import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, BrokerPartition
from sharemesh_spark.reader.data_directory import UnreadableLogError
from sharemesh_spark.reader.kafka_place import KafkaPlace
from sharemesh_spark.reader.kafka_reads import LogMovedError, asked, fetched, on_brokers

AppendedBatch = tuple[str, int, int, int, int]
"""Topic id, partition, first offset, last offset, timestamp in ms."""

_NO_END = 1 << 62


def appended_batches(place: KafkaPlace, topics: Sequence[TopicId]) -> list[AppendedBatch]:
    """Return all batches that topics have; one that is gone has none.

    Raises:
        UnreadableLogError: Nobody answers, or they may not be read.
    """

    async def ask(brokers: KafkaBrokers) -> list[AppendedBatch]:
        found: list[AppendedBatch] = []
        if not topics:
            return found
        what = "the metadata of topics"
        answer = await asked(lambda: brokers.metadata(topic_ids=topics), what)
        for topic in answer.topics:
            for number in range(0 if topic.error else len(topic.partitions)):
                where = BrokerPartition(topic.topic_id, topic.topic, number)
                found += await _batches(brokers, where)
        return found

    return on_brokers(place.access, ask)


async def _batches(brokers: KafkaBrokers, where: BrokerPartition) -> list[AppendedBatch]:
    what = f"topic {where.topic} partition {where.partition}"
    found: list[AppendedBatch] = []
    at = (await asked(lambda: brokers.list_offset(where, EARLIEST_TIMESTAMP), what)).offset
    end = (await asked(lambda: brokers.list_offset(where, LATEST_TIMESTAMP), what)).offset
    while at < end:
        try:
            records = await fetched(brokers, where, at, what)
        except LogMovedError:
            at = (await asked(lambda: brokers.list_offset(where, EARLIEST_TIMESTAMP), what)).offset
            continue
        before = at
        for at, batch in _of_answer(records, where, before):  # noqa: B007 - goes on from the last
            found.append(batch)
        if at == before:
            raise UnreadableLogError(f"{what}, offset {at}: no whole record batch is there")
    return found


def _of_answer(
    records: bytes, where: BrokerPartition, at: int
) -> Iterator[tuple[int, AppendedBatch]]:
    """Yield each batch behind an offset, with the offset to go on from."""
    walk = walk_frames(
        records, start=0, limit=_NO_END, base_offset=None, leader_epoch=None, check_crc=False
    )
    topic_id = format_topic_id(where.topic_id)
    for frame in walk.frames:
        if frame.end_offset > at:
            low, high = frame.base_offset, frame.end_offset
            yield high, (topic_id, where.partition, low, high - 1, frame.max_timestamp_ms)
