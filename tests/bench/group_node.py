"""One group-coordinator process for the bench; share states are kept in memory.

    python -m tests.bench.group_node DIRECTORY

Prints its port, serves until its standard input ends.
"""

import asyncio
import sys
from pathlib import Path

import uvloop

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.cluster.acl_table import AllowAll
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import NodeId, TopicId
from sharemesh.group_coordinator.service import GroupCoordinatorPorts, GroupCoordinatorService
from sharemesh.ports.share_state import StateWriteResult
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.event_wakes import take_events_together
from sharemesh.rpc.server import GrpcServer
from sharemesh.serve.process.memory import bound_heap, tune_interpreter
from sharemesh.testing.cluster_records import ClusterRecords

TOPIC = TopicId(b"benchbenchbench!")
PARTITIONS = 256
SHARDS = 4


class AlwaysInitialized:
    """Share states that are there at once."""

    async def initialize_state(self, key, state_epoch, start_offset, batches=()):
        return StateWriteResult(ErrorCode.NONE)


async def main(directory):
    tune_interpreter()  # as every process of the product does
    bound_heap()
    take_events_together()
    clock = SystemClock()
    world = ClusterRecords(clock, cluster_id="bench")
    await world.open(group_shards=SHARDS)
    await world.write(
        world.topic("bench", TOPIC, PARTITIONS),
        world.cluster_settings({"group.share.max.size": "1000"}),
        until=lambda: world.view.topic(TOPIC) and world.view.cluster_configs(),
    )
    ports = GroupCoordinatorPorts(
        clock=clock,
        view=world.view,
        authorizer=AllowAll(),
        logs=EmbeddedShardLogs(SystemDisk(Path(directory)), clock, LogSettings()),
        persister=AlwaysInitialized(),
        coordination=world.coordination,
        caller=GrpcCaller(clock),
    )
    service = GroupCoordinatorService(NodeId("bench"), ports)
    server = GrpcServer(reflection=False)
    service.offer(server)
    for shard in range(SHARDS):
        await service.start_shard(shard, 1)
    print(await server.start("127.0.0.1", 0), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(0)
    await service.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
