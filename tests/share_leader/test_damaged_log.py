"""A damaged record log behind the leader: told to producers and in explain, and the way out."""

from sharemesh import methods
from sharemesh.codec.log_layout import record_log_path
from sharemesh.domain.errors import ErrorCode
from sharemesh.v1 import record_log_pb2 as rl
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.share_leader.world import FOO, LEADER, TopicPartition, acquired, parts, world

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)


def flip(disk, position):
    folder = record_log_path(FOO, 0)
    (name,) = [name for name in disk.list(folder) if name.endswith(".log")]
    data = bytearray(disk.read(f"{folder}/{name}"))
    data[position] ^= 1
    disk.delete(f"{folder}/{name}")
    broken = disk.create(f"{folder}/{name}")
    broken.append(data)
    broken.close()
    return f"{folder}/{name}"


async def send(w, partition):
    request = rl.ProduceRequest(
        partitions=[
            rl.ProducePartition(
                topic_id=FOO, partition=partition, decoded_records=[DecodedRecord(value=b"v")]
            )
        ]
    )
    response = await w.network.caller().call(methods.PRODUCE, request, to=LEADER)
    return response.partitions[0]


async def delete_before(w, offset):
    asked = rl.DeleteRecordsPartition(topic_id=FOO, partition=0, offset=offset)
    request = rl.DeleteRecordsRequest(partitions=[asked])
    response = await w.network.caller().call(methods.DELETE_RECORDS, request, to=LEADER)
    return response.partitions[0]


async def reason(w, offset):
    request = pb.ExplainRequest(group_id="g", topic_name="foo", offset=offset)
    return await w.network.caller().call(methods.EXPLAIN, request, to=LEADER)


async def test_damage_stops_one_partition_at_its_place_until_the_log_start_passes_it():
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest")
        await w.lead(P0)
        await w.lead(P1)
        for _ in range(4):
            await w.produce(P0, 3)
        size = (w.disk.size(f"{record_log_path(FOO, 0)}/{0:020d}-{1:010d}.log") - 64) // 4
        await w.service.stop_partition(P0)
        file = flip(w.disk, 64 + size + 20)
        await w.lead(P0)
        member = w.client()
        await member.join(P0)
        assert acquired(await member.fetch(), P0) == [(0, 2, 1)]  # readable before it
        at_damage = parts(await member.fetch(max_wait_ms=60_000))[P0]  # told, not kept waiting
        assert at_damage.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert f"{file}, position {64 + size}, offset 3:" in at_damage.error_message
        refused = await send(w, 0)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert f"{file}, position {64 + size}, offset 3:" in refused.error_message
        assert "--before 6`" in refused.error_message
        assert (await send(w, 1)).error_code == 0  # other partitions go on
        told = await reason(w, 4)
        assert told.reason == "DAMAGED"
        assert "--before 6`" in told.explanation
        assert (await reason(w, 1)).reason == "LOCKED"
        assert (await delete_before(w, 13)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        deleted = await delete_before(w, 6)
        assert (deleted.error_code, deleted.low_watermark) == (0, 6)
        last = await send(w, 0)
        assert (last.error_code, last.base_offset) == (0, 12)
        assert acquired(await member.fetch(), P0) == [(6, 11, 1)]
        assert acquired(await member.fetch(), P0) == [(12, 12, 1)]
        assert (await reason(w, 4)).reason == "BELOW_LOG_START"


async def test_everything_can_be_given_up_at_once():
    async with world() as w:
        await w.lead(P0)
        for _ in range(4):
            await w.produce(P0, 3)
        await w.service.stop_partition(P0)
        flip(w.disk, 20)  # the segment's header
        await w.lead(P0)
        assert (await send(w, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await delete_before(w, -1)).low_watermark == 12
        assert (await send(w, 0)).base_offset == 12
