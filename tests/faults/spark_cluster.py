"""A share coordinator on a real disk that the Spark job commits to by gRPC, and all it ever wrote.

The clock stands still unless ``pass_time`` moves it, so that nothing is pruned that was not
remembered before: trials compare with the fold and the walk of the whole log.
"""

import asyncio
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from sharemesh import methods
from sharemesh.admin.metadata import MetadataHandlers
from sharemesh.authorization.access import Access
from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.cluster.acl_table import AllowAll
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_state.fold import content_hash
from sharemesh.rpc.server import GrpcServer
from sharemesh.share_coordinator.generations import GenerationReader
from sharemesh.share_coordinator.service import ShareCoordinatorService
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.v1 import common_pb2
from sharemesh.v1 import share_coordinator_pb2 as pb
from sharemesh_spark.generation.source import shard_records
from tests.share_coordinator.world import CONTEXT, T1, Client, world
from tests.spark.reference_fold import DomainFold

SHARDS = 2
GROUPS = ("billing", "to:wer", "a b", "100%=all/of it")
PARTITIONS = 4
PRUNED_AFTER_MS = 300_001
GROW_EVERY_S = 0.05
_CAUSES = {
    DeliveryState.AVAILABLE: (Cause.RELEASE, Cause.LOCK_EXPIRY),
    DeliveryState.ACKNOWLEDGED: (Cause.ACCEPT, Cause.GAP),
    DeliveryState.ARCHIVED: (Cause.REJECT, Cause.DELIVERY_LIMIT),
}


class SparkCluster:
    """Everything but Spark; ``raw`` holds each record of each shard by offset, pruned ones too."""

    def __init__(self, w, data):
        self.w = w
        self.data = data
        self.disk = SystemDisk(data)
        self.raw: dict[int, dict[int, Any]] = {shard: {} for shard in range(SHARDS)}
        self.service: Any = None  # until `start_coordinator`
        self.port = None
        settings = LogSettings(segment_bytes=64 * 1024, fsync=False)
        self._logs = EmbeddedShardLogs(self.disk, w.clock, settings)
        self.fold_hash = cache(self._fold_hash)

    async def start_coordinator(self):
        """Begin a new life of the share coordinator: it loads what is committed."""
        if self.service is not None:
            await self.service.close()
        self.service = ShareCoordinatorService(
            self.w.view,
            self.w.clock,
            self._logs,
            ShareCoordinatorSettings(metadata_wait_ms=0, updates_per_snapshot=20),
            generations=GenerationReader(self.disk),
        )
        self.service.start()
        self.w.epoch += 1
        for shard in range(SHARDS):
            await self.service.shards.start_shard(shard, self.w.epoch)

    async def commit(self, request, context):
        return await self.service.commit_generation(request, context)

    def remember(self):
        """Add what the log holds now to what it ever held; a record never changes."""
        for shard, known in self.raw.items():
            for offset, _, record in shard_records(self.data, shard):
                assert known.setdefault(offset, record) == record, (shard, offset)

    async def pass_time(self, duration_ms):
        self.remember()
        await self.w.clock.advance(duration_ms)

    def _fold_hash(self, shard, end_offset):
        """Return the content hash of the domain's fold of a shard's records below an offset."""
        folded = DomainFold()
        for offset, record in sorted(self.raw[shard].items(), key=lambda item: item[0]):
            if offset < end_offset:
                folded.add(offset, record)
        return content_hash(folded.states, folded.floors)

    def served_hash(self, shard):
        """Return the same hash of what the coordinator serves."""
        return self.service.shards.shard(shard).peek(
            lambda machine: content_hash(dict(machine.states()), machine.floors)
        )

    def end_offset(self, shard):
        return self.service.shards.shard(shard).committed_end_offset


@asynccontextmanager
async def spark_cluster(data):
    """Yield a cluster whose coordinator of two shards is reached at ``127.0.0.1:port``."""
    async with world(state_shards=SHARDS) as w:
        cluster = SparkCluster(w, data)
        await open_data_directory(
            cluster.disk, cluster_id="test", group_shards=1, state_shards=SHARDS
        )
        server = GrpcServer(reflection=False)
        finding = MetadataHandlers(w.view, Access(AllowAll()), w.clock)
        server.offer(methods.FIND_COORDINATOR, finding.find_coordinator)
        server.offer(methods.COMMIT_GENERATION, cluster.commit)
        cluster.port = await server.start("127.0.0.1", 0)
        try:
            await w.register("sc", leads=range(SHARDS), host="127.0.0.1", port=cluster.port)
            await cluster.start_coordinator()
            yield cluster
        finally:
            await server.stop(0)
            if cluster.service is not None:
                await cluster.service.close()
            cluster.disk.close()


class Growth:
    """Writes, deletions and new beginnings of share partitions, as the random numbers want."""

    def __init__(self, cluster, rng):
        self._cluster = cluster
        self._rng = rng
        self._epoch = 0
        self._absent = [(group, number) for group in GROUPS for number in range(PARTITIONS)]
        self._present = {}

    async def begin(self, writes):
        """Initialize everything, and write so often."""
        while self._absent:
            await self._initialize()
        for _ in range(writes):
            await self._write()

    async def grow(self, steps):
        """Change something so often; one of the changes is a deletion."""
        deletion = self._rng.randrange(steps)
        for step in range(steps):
            if step == deletion:
                await self._delete()
            elif self._absent and self._rng.random() < 0.2:
                await self._initialize()
            else:
                await self._write()

    async def go_on(self):
        """Write until cancelled."""
        while True:
            await self._write()
            await asyncio.sleep(GROW_EVERY_S)

    def _client(self, key):
        return Client(self._cluster.service, key[0], T1, key[1])

    async def _initialize(self):
        key = self._absent.pop(self._rng.randrange(len(self._absent)))
        self._epoch += 1
        start = self._rng.choice((-1, 0, 7))
        answer = await self._client(key).I(self._epoch, start)
        assert answer.error_code == 0, answer
        self._present[key] = [self._epoch, max(0, start)]

    async def _delete(self):
        key = self._rng.choice(sorted(self._present))
        answer = await self._client(key).D()
        assert answer.error_code == 0, answer
        del self._present[key]
        self._absent.append(key)

    async def _write(self):
        key = self._rng.choice(sorted(self._present))
        epoch, start = self._present[key]
        if self._rng.random() < 0.3:
            start = self._present[key][1] = start + self._rng.randrange(20)
        first = start + self._rng.randrange(40)
        batches = []
        for _ in range(self._rng.randrange(1, 4)):
            last = first + self._rng.randrange(5)
            state = self._rng.choice(tuple(_CAUSES))
            batches.append(
                common_pb2.StateBatch(
                    first_offset=first,
                    last_offset=last,
                    delivery_state=state,
                    delivery_count=self._rng.randrange(1, 5),
                    cause=self._rng.choice(_CAUSES[state]),
                )
            )
            first = last + self._rng.randrange(1, 4)
        item = pb.WritePartitionState(
            partition=key[1],
            state_epoch=epoch,
            start_offset=start,
            state_batches=batches,
            cause=batches[0].cause,
            member_id=f"m{self._rng.randrange(3)}",
        )
        topic = pb.WriteTopicState(topic_id=T1, partitions=[item])
        request = pb.WriteShareGroupStateRequest(group_id=key[0], topics=[topic])
        response = await self._cluster.service.write(request, CONTEXT)
        error = response.results[0].partitions[0].error_code
        # On a crowded machine a commit may take too long; the log alone says what became of it.
        assert error in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE), response
