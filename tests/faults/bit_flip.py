"""bit_flip: one bit in each region of record, state and group logs: found, told, never served."""

import asyncio
import random
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from sharemesh import methods
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.cli.log_files import open_log
from sharemesh.cli.session import CommandError
from sharemesh.codec.log_chain import LogBytesError
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.shard_log import CorruptLogError
from sharemesh.v1 import record_log_pb2
from tests.faults.damage import REGIONS, Flip, flip, opened
from tests.faults.node import Place
from tests.faults.records import RawProducer, check_log, consume, on_disk
from tests.faults.trials import Outcome

BATCHES = 6
PARTITIONS = 1 + len(REGIONS)  # 0 stays whole
HIGH_EPOCH = 1_000_000
ADVICE = re.compile(r"--before (\d+)")


async def bit_flip(number: int, seed: int) -> Outcome:
    """Flip a bit in each region of one log each; what lies before it is served, nothing else."""
    rng = random.Random(seed)
    async with Place() as place:
        node = await place.node("a")
        await place.create_topic("t", PARTITIONS)
        producer = RawProducer(place, "t", rng, size=10)
        await _produce(producer, node.address)
        if rng.random() < 0.5:  # a second segment, of the next epoch
            await node.kill()
            node = await place.node("a")
            await _produce(producer, node.address)
        whole = {p: on_disk(place.partition_directory("t", p)) for p in range(PARTITIONS)}
        await consume(place, "before", "t", {p: len(found) for p, found in whole.items()})
        await node.kill()
        wrong = [each for p in range(PARTITIONS) for each in _confirmed(producer, whole[p], p)]
        wrong += await _shard_logs(place, rng)
        flips = {
            p: flip(place.partition_directory("t", p), region, rng)
            for p, region in enumerate(REGIONS, start=1)
        }
        began = time.monotonic()
        node = await place.node("a")
        await place.led("t", PARTITIONS)
        recovery_ms = (time.monotonic() - began) * 1_000
        wrong += await _record_logs(place, node.address, producer, whole, flips)
    return Outcome(tuple(wrong), (recovery_ms,))


async def _produce(producer: RawProducer, address: str) -> None:
    for _ in range(BATCHES):
        await asyncio.gather(*(producer.retry(address, p) for p in range(PARTITIONS)))


def _confirmed(producer: RawProducer, found: dict[int, bytes], partition: int) -> list[str]:
    mine = [each for each in producer.batches if each.partition == partition]
    return check_log(found, mine, f"t/{partition} before the damage")


async def _record_logs(
    place: Place,
    address: str,
    producer: RawProducer,
    whole: dict[int, dict[int, bytes]],
    flips: dict[int, Flip],
) -> list[str]:
    """What the leader serves and says of each damaged partition."""
    wrong = []
    readable = {p: len(found) for p, found in whole.items()}
    for partition, damage in flips.items():
        readable[partition] = damage.offset
    got = (await consume(place, "after", "t", readable, settle_s=0.3)).got
    for partition, found in whole.items():
        wanted = {offset: v for offset, v in found.items() if offset < readable[partition]}
        if got[partition] != wanted:
            region = flips[partition].region if partition in flips else "no damage"
            wrong.append(
                f"t/{partition} ({region}): {len(got[partition])} records were served, "
                f"{len(wanted)} are readable"
            )
    for partition, damage in flips.items():
        answer = await producer.send(address, partition)
        name = f"t/{partition} ({damage.region}, byte {damage.at})"
        if answer.error != ErrorCode.KAFKA_STORAGE_ERROR:
            wrong.append(f"{name}: produce was answered {answer.error} {answer.message}")
        elif not damage.told_in(answer.message):
            wrong.append(f"{name}: {answer.message!r} does not say {damage}")
    answer = await producer.send(address, 0)
    if answer.error != 0:
        wrong.append(f"t/0 has no damage and refuses: {answer.message}")
    return wrong + await _ways_out(place, address, producer, flips)


async def _ways_out(
    place: Place, address: str, producer: RawProducer, flips: dict[int, Flip]
) -> list[str]:
    """Do what the refusal advises; then the partition takes records again."""
    wrong = []
    for partition, damage in flips.items():
        name = f"t/{partition} ({damage.region}, byte {damage.at})"
        refused = await producer.send(address, partition)
        advised = ADVICE.search(refused.message)
        if advised is None:
            wrong.append(f"{name}: {refused.message!r} tells no way out")
            continue
        request = record_log_pb2.DeleteRecordsRequest(
            partitions=[
                record_log_pb2.DeleteRecordsPartition(
                    topic_id=place.topics["t"], partition=partition, offset=int(advised[1])
                )
            ]
        )
        deleted = await place.caller.call(methods.DELETE_RECORDS, request, to=address)
        if deleted.partitions[0].error_code:
            wrong.append(f"{name}: DeleteRecords says {deleted.partitions[0].error_message}")
        answer = await producer.send(address, partition)
        if answer.error:
            wrong.append(f"{name}: still refused after the advice: {answer.message}")
    return wrong


async def _shard_logs(place: Place, rng: random.Random) -> list[str]:
    """Flip each region in a copy of a state log and of a group log; open it, and read beside."""
    wrong = []
    for kind in ("state", "group"):
        logs = [path for path in (place.data / kind).iterdir() if any(path.glob("*.end"))]
        largest = max(logs, key=lambda path: sum(f.stat().st_size for f in path.glob("*.log")))
        shard = int(largest.name)
        good = [each for records in opened(largest).records() for each in records]
        for number, region in enumerate(REGIONS):
            root = place.work / f"copy-{kind}-{number}"
            copy = root / kind / largest.name
            shutil.copytree(largest, copy)
            damage = flip(copy, region, rng)
            name = f"{kind} log ({region}, byte {damage.at})"
            wrong += _beside(copy, damage, good, name)
            wrong += await _opened(root, kind, shard, damage, name, len(good))
    return wrong


def _beside(copy: Path, damage: Flip, good: Sequence[object], name: str) -> list[str]:
    """What a reader beside the writer says."""
    seen: list[object] = []
    try:
        log = open_log(copy)
        assert log is not None
        for records in log.records():
            seen += records
    except (LogBytesError, CommandError) as error:
        told = damage.told_in(str(error))
        wrong = [] if told else [f"{name}: the reader's {str(error)!r} does not say {damage}"]
        if seen != good[: len(seen)]:
            wrong.append(f"{name}: the reader was given damaged records")
        return wrong
    return [f"{name}: the reader noticed nothing"]


async def _opened(
    root: Path, kind: str, shard: int, damage: Flip, name: str, count: int
) -> list[str]:
    """What the next owner says."""
    disk = SystemDisk(root)
    replayed = 0
    log = None
    try:
        log = await EmbeddedShardLogs(disk, SystemClock(), LogSettings()).open(
            kind, shard, HIGH_EPOCH
        )
        async for records in log.replay():
            replayed += len(records)
    except CorruptLogError as error:
        if damage.told_in(str(error)) and error.file and error.position >= 0 and error.offset >= 0:
            return []
        return [f"{name}: {str(error)!r} does not say {damage}"]
    finally:
        if log is not None:
            await log.close()
        disk.close()
    return [f"{name}: the next owner replayed {replayed} of {count} records and noticed nothing"]
