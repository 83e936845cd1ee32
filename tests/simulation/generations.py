"""What the Spark job does, in virtual time: fold the state log, write a generation, commit it.

Reading the log, the fold, the schema of the files and the hash are the product's own. Spark itself
and its vectorised fold do not run here; tests/spark holds the two folds together.
"""

import asyncio
import io
from pathlib import Path
from random import Random
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq

from sharemesh import methods
from sharemesh.codec.generation import (
    COMMITTED,
    FOLDER,
    FORMAT_VERSION,
    MANIFEST,
    Manifest,
    ShardManifest,
    arrow_schema,
    encode_manifest,
)
from sharemesh.codec.state_record import decode_record
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId, format_key, home_shard
from sharemesh.domain.share_state.fold import content_hash
from sharemesh.domain.share_state.records import Generation
from sharemesh.ports.network import CallFailedError
from sharemesh.share_coordinator.generations import GenerationReader
from sharemesh.v1 import admin_pb2, share_coordinator_pb2
from sharemesh_spark.reader.data_directory import UnreadableLogError, read_shard, records
from tests.simulation.disk_path import DiskPath
from tests.simulation.engines.engine import STATE_SHARDS
from tests.simulation.invariants import STATE_IS_REPLAY
from tests.simulation.world import World
from tests.spark.reference_fold import DomainFold

GAP_S = (30.0, 90.0)
PART = "part-0.parquet"


class GenerationJob:
    """Makes one generation after the other, as the CronJob does."""

    def __init__(self, world: World, gap_s: tuple[float, float] = GAP_S) -> None:
        self._world = world
        self._gap_s = gap_s
        self._process, _ = world.new_client("spark")
        self._rng = Random(world.rng.getrandbits(64))
        self._caller = world.network.caller(self._process)
        self._disk = world.embedded.volume.view(self._process)
        self._keys = _keys_of_shards()
        self._made = 0

    def start(self) -> None:
        """Begin; it goes on until the run ends."""
        self._process.start(self._run())

    async def _run(self) -> None:
        counters = self._world.event_log.counters
        while True:
            await asyncio.sleep(self._rng.uniform(*self._gap_s))
            try:
                await self._make()
            except (UnreadableLogError, CallFailedError, OSError) as error:
                self._world.tell(f"no generation: {error!r}", count="generations failed")
            else:
                counters["generations"] += 1

    async def _make(self) -> None:
        self._made += 1
        generation_id = f"g{self._made:06d}"
        folder = f"{FOLDER}/{generation_id}"
        rows, shards = [], []
        for shard in range(STATE_SHARDS):
            previous, folded, end_offset = await self._fold(shard)
            rows += _rows(shard, folded)
            shards.append(
                ShardManifest(
                    shard=shard,
                    end_offset=end_offset,
                    records=folded.records,
                    share_partitions=len(folded.states),
                    log_bytes=0,
                    content_hash=content_hash(folded.states, folded.floors).hex(),
                    previous_generation_id=previous,
                    files=(PART,),
                )
            )
        manifest = Manifest(FORMAT_VERSION, generation_id, "simulation", tuple(shards), 0)
        data = encode_manifest(manifest).encode()
        await self._disk.run(lambda: self._write(folder, rows, data))
        for about in shards:
            if about.end_offset:
                await self._commit(generation_id, folder, about)
        await self._disk.run(lambda: self._put(f"{folder}/{COMMITTED}", b""))

    async def _fold(self, shard: int) -> tuple[str, DomainFold, int]:
        """Fold on from the newest generation; while the log is whole, compare (invariant 7)."""
        image = await self._disk.run(lambda: read_shard(cast(Path, DiskPath(self._disk)), shard))
        decoded = [(each.offset, decode_record(each.key, each.value)) for each in records(image)]
        pointer = None
        for _, record in decoded:
            if isinstance(record, Generation):
                pointer = record if record.generation_id else None
        folded = DomainFold()
        begin = image.start_offset
        if pointer is not None:
            reader = GenerationReader(self._disk)
            folded.states, folded.floors = await reader.read(pointer, shard)
            begin = pointer.end_offset
        for offset, record in decoded:
            if offset >= begin and record is not None:
                folded.add(offset, record)
        if image.start_offset == 0 and pointer is not None:
            whole = DomainFold()
            for offset, record in decoded:
                if record is not None:
                    whole.add(offset, record)
            STATE_IS_REPLAY.judged(self._world.event_log.counters)
            if (whole.states, whole.floors) != (folded.states, folded.floors):
                generation = f"generation {pointer.generation_id} and its tail"
                text = f"shard {shard}: {generation} fold to another state than the log"
                self._world.event_log.violation(self._world.now_s, STATE_IS_REPLAY.broken(text))
        return "" if pointer is None else pointer.generation_id, folded, image.end_offset

    def _write(self, folder: str, rows: list[dict[str, object]], manifest: bytes) -> None:
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema()), sink)
        self._disk.make_directory(folder)
        self._put(f"{folder}/{PART}", sink.getvalue())
        self._put(f"{folder}/{MANIFEST}", manifest)
        self._disk.sync_directory(folder)

    def _put(self, path: str, data: bytes) -> None:
        file = self._disk.create(path)
        file.append(data)
        file.sync()
        file.close()

    async def _commit(self, generation_id: str, folder: str, about: ShardManifest) -> None:
        found = await self._caller.call(
            methods.FIND_COORDINATOR,
            admin_pb2.FindCoordinatorRequest(
                key_type=admin_pb2.COORDINATOR_KEY_TYPE_SHARE, keys=[self._keys[about.shard]]
            ),
            to=self._rng.choice(self._world.bootstrap.split(",")),
        )
        node = found.coordinators[0].node
        answer = await self._caller.call(
            methods.COMMIT_GENERATION,
            share_coordinator_pb2.CommitGenerationRequest(
                shard=about.shard,
                generation_id=generation_id,
                previous_generation_id=about.previous_generation_id,
                end_offset=about.end_offset,
                path=f"{folder}/{MANIFEST}",
                content_hash=bytes.fromhex(about.content_hash),
                format_version=FORMAT_VERSION,
            ),
            to=f"{node.host}:{node.port}",
        )
        if answer.error_code:
            text = f"shard {about.shard}: {answer.error_message}"
            self._world.tell(f"generation refused: {text}", count="generations refused")
        else:
            self._world.event_log.counters["generations committed, shards"] += 1


def _keys_of_shards() -> dict[int, str]:
    """Return a key text of each shard, for FindCoordinator."""
    keys: dict[int, str] = {}
    for number in range(1_000):
        key = format_key(SharePartitionKey(GroupId("generation"), TopicId(b"\1" * 16), number))
        keys.setdefault(home_shard(key, STATE_SHARDS), key)
    return keys


def _rows(shard: int, folded: DomainFold) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for key, state in folded.states.items():
        numbers = {
            name: getattr(state, name) for name in arrow_schema().names if hasattr(state, name)
        }
        runs = [
            {"first": b.first_offset, "last": b.last_offset, "state": int(b.delivery_state)}
            | {"count": b.delivery_count, "not_before": b.not_before_ms}
            for b in state.batches
        ]
        place = {"group_id": key.group_id, "topic_id": key.topic_id, "partition": key.partition}
        rows.append({"shard": shard, "kind": "state"} | numbers | place | {"batches": runs})
    floors = {"state_epoch": folded.floors.state_epoch, "leader_epoch": folded.floors.leader_epoch}
    return [*rows, {"shard": shard, "kind": "floors", **floors}]
