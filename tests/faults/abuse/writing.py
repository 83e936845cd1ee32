"""Records, transactions, times and producers: what a principal writes to a topic of its own."""

import os
import struct
import time

from sharemesh import methods as m
from sharemesh.codec.record_set import build_batch
from sharemesh.v1 import record_log_pb2, share_leader_pb2
from tests.faults.abuse.abused_cluster import (
    MALLOR,
    MINE,
    NO_RIGHT,
    OTHER_RIGHT,
    REVOKED,
    SAME_GROUP,
    SECRET,
    Stage,
)
from tests.faults.abuse.kinds import abuse, error_codes, flood

LEADER = "share-leader"
LONGS = (0, -1, -2, 2**62, 2**63 - 1, -(2**63))
RECORDS = [(b"k", b"v" * 20, ())] * 3


def now_ms() -> int:
    """Return the wall clock, which the leader compares record times with."""
    return time.time_ns() // 1_000_000


def batch(**header: int) -> bytearray:
    """Return a batch of three records."""
    return build_batch(RECORDS, **({"timestamp_ms": now_ms()} | header))  # type: ignore[arg-type]


def produce(
    stage: Stage, records: bytes | bytearray, *, transactional_id: str = "", topic: str = MINE
) -> record_log_pb2.ProduceRequest:
    """Return a request with one batch."""
    request = record_log_pb2.ProduceRequest(transactional_id=transactional_id)
    request.partitions.add(topic_id=stage.topic_ids[topic], partition=1, records=bytes(records))
    return request


def with_checksum(data: bytearray) -> bytearray:
    """Make the checksum of a batch fit what it holds now."""
    from google_crc32c import value

    struct.pack_into(">I", data, 17, value(bytes(data[21:])))
    return data


@abuse(OTHER_RIGHT, finding=6)
async def transactions_without_a_right(stage: Stage, who: str) -> None:
    """Transactional batches of invented producers: none is written."""
    for transactional_id in ("", "invented", "x" * 2_000):
        records = batch(producer_id=4_711, producer_epoch=0, base_sequence=0, is_transactional=True)
        request = produce(stage, records, transactional_id=transactional_id)
        answer = await stage.ask(who, LEADER, m.PRODUCE, request)
        codes = {each.error_code for each in answer.partitions}
        assert codes & {42, 53}, f"{transactional_id[:9]!r}: {codes}"


@abuse(OTHER_RIGHT, finding=6, once=True)
async def transactions_that_nobody_ends(stage: Stage, who: str) -> None:
    """Two thousand open transactions of one who may have them: half are refused."""
    await stage.allow("mallory", ("write", "transactional_id", "mallory-*"))

    def opened(number: int) -> record_log_pb2.ProduceRequest:
        records = batch(
            producer_id=10_000 + number, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        return produce(stage, records, transactional_id="mallory-tx")

    requests = (opened(number) for number in range(2_000))
    said = await flood(stage, who, LEADER, m.PRODUCE, requests, at_once=8)
    codes = set[int]().union(
        *(error_codes(m.PRODUCE.response.FromString(each.data)) for each in said)
    )
    assert 48 in codes, f"open transactions are not bounded: {codes}"


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED, SAME_GROUP)
async def markers_of_transactions(stage: Stage, who: str) -> None:
    """Ends of transactions, which only the cluster and administrators may write."""
    request = record_log_pb2.WriteTxnMarkersRequest()
    for topic in (SECRET, MINE):
        request.markers.add(
            producer_id=1, commit=True, topic_id=stage.topic_ids[topic], partition=0
        )
    answer = await stage.ask(who, LEADER, m.WRITE_TXN_MARKERS, request)
    assert error_codes(answer) == {31}, f"{who}: {answer}"


@abuse(OTHER_RIGHT, finding=15)
async def batches_damaged_behind_a_good_checksum(stage: Stage, who: str) -> None:
    """Records of garbage whose checksum fits, between good ones, read in the decoded form."""
    garbage = batch()
    garbage[61:] = os.urandom(len(garbage) - 61)
    for records in (batch(), with_checksum(garbage), batch()):
        await stage.send(who, LEADER, m.PRODUCE, produce(stage, records))
    fetch = share_leader_pb2.ShareFetchRequest(
        group_id=f"{MALLOR}-damaged",
        member_id=f"m{os.urandom(4).hex()}",
        max_bytes=1 << 20,
        max_records=50,
        record_format=share_leader_pb2.RECORD_FORMAT_DECODED,
    )
    fetch.topics.add(topic_id=stage.topic_ids[MINE]).partitions.add(partition=1)
    await stage.send(who, LEADER, m.SHARE_FETCH, fetch)


@abuse(OTHER_RIGHT)
async def batches_whose_headers_lie(stage: Stage, who: str) -> None:
    """Lengths, counts, magic and compression of all kinds, checksum right and wrong."""
    requests = []
    for at, kind, values in (
        (0, ">q", LONGS),
        (8, ">i", (0, -1, 1, 2**31 - 1)),
        (16, ">b", (0, 1, 3, -1)),
        (17, ">I", (0, 2**32 - 1)),
        (21, ">h", (7, 0x20, 0x30, -1)),
        (23, ">i", (-1, 0, 5, 2**31 - 1)),
        (57, ">i", (-1, 0, 1, 2**31 - 1)),
    ):
        for value in values:
            data = batch()
            struct.pack_into(kind, data, at, value)
            requests.append(produce(stage, data))
            if at > 20:
                requests.append(produce(stage, with_checksum(data)))
    await flood(stage, who, LEADER, m.PRODUCE, requests, at_once=4)


@abuse(OTHER_RIGHT, finding=17)
async def times_beyond_all_time(stage: Stage, who: str) -> None:
    """Record times that would keep a segment for ever: refused."""
    for number in (2**63 - 1, -(2**63), -2, now_ms() + 7_200_000):
        records = batch()
        struct.pack_into(">qq", records, 27, number, number)
        answer = await stage.ask(who, LEADER, m.PRODUCE, produce(stage, with_checksum(records)))
        codes = {each.error_code for each in answer.partitions}
        assert codes == {32}, f"time {number}: {codes}"


@abuse(OTHER_RIGHT)
async def control_batches_of_clients(stage: Stage, who: str) -> None:
    """Batches that say they are the log's own."""
    records = batch(producer_id=5, producer_epoch=0, base_sequence=0)
    for attributes in (0x20, 0x30):
        struct.pack_into(">h", records, 21, attributes)
        answer = await stage.ask(who, LEADER, m.PRODUCE, produce(stage, with_checksum(records)))
        assert error_codes(answer) != {0}, f"attributes {attributes:#x} were taken"


@abuse(OTHER_RIGHT, once=True)
async def producers_by_the_thousand(stage: Stage, who: str) -> None:
    """Three thousand producer ids on one partition."""
    requests = (
        produce(stage, batch(producer_id=100_000 + number, producer_epoch=0, base_sequence=0))
        for number in range(3_000)
    )
    await flood(stage, who, LEADER, m.PRODUCE, requests, at_once=4)


@abuse(OTHER_RIGHT)
async def producer_epochs_and_sequences_that_lie(stage: Stage, who: str) -> None:
    """The last epoch, sequences of the future and of the past."""
    requests = [
        produce(stage, batch(producer_id=7, producer_epoch=epoch, base_sequence=sequence))
        for epoch in (0, 32_767, -1)
        for sequence in (0, 2**31 - 1, -1, 5)
    ]
    await flood(stage, who, LEADER, m.PRODUCE, requests, at_once=2)


@abuse(OTHER_RIGHT, NO_RIGHT)
async def producer_ids_without_pause(stage: Stage, who: str) -> None:
    """New producer ids, again and again."""
    request = record_log_pb2.InitProducerIdRequest(producer_id=-1, producer_epoch=-1)
    await flood(stage, who, LEADER, m.INIT_PRODUCER_ID, [request] * 200, at_once=4)


@abuse(OTHER_RIGHT, NO_RIGHT, SAME_GROUP, REVOKED)
async def records_deleted_up_to_any_offset(stage: Stage, who: str) -> None:
    """Delete what is another's, and what is not there yet."""
    for topic in (SECRET, MINE):
        request = record_log_pb2.DeleteRecordsRequest()
        for number in LONGS[1:]:
            request.partitions.add(
                topic_id=stage.topic_ids[topic], partition=0, offset=max(number, 2**40)
            )
        answer = await stage.ask(who, LEADER, m.DELETE_RECORDS, request)
        codes = {each.error_code for each in answer.partitions}
        assert 0 not in codes, f"{who} deleted records of {topic}: {codes}"


@abuse(OTHER_RIGHT)
async def offsets_listed_by_any_time(stage: Stage, who: str) -> None:
    """The search by time, from the first time to the last."""
    request = record_log_pb2.ListOffsetsRequest()
    for number in (*LONGS, -3, -5, now_ms()):
        for partition in (0, 1, 2, -1):
            request.partitions.add(
                topic_id=stage.topic_ids[MINE], partition=partition, timestamp=number
            )
    requests = [request] * 20
    await flood(stage, who, LEADER, m.LIST_OFFSETS, requests, at_once=4)


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED)
async def producers_of_others_listed(stage: Stage, who: str) -> None:
    """Who writes to the quiet tenant's topic."""
    request = record_log_pb2.DescribeProducersRequest()
    for partition in (0, 1, 7):
        request.partitions.add(topic_id=stage.topic_ids[SECRET], partition=partition)
    answer = await stage.ask(who, LEADER, m.DESCRIBE_PRODUCERS, request)
    assert error_codes(answer) == {29}, f"{who}: {answer}"
