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
from sharemesh.backends.local.authorizer import AllowAll
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.cluster.bootstrap import ensure_cluster
from sharemesh.cluster.store import records
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import NodeId, TopicId
from sharemesh.group_coordinator.service import GroupCoordinatorPorts, GroupCoordinatorService
from sharemesh.group_coordinator.states import StateAnswer
from sharemesh.ports.cluster import TopicInfo
from sharemesh.ports.coordination import Put
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.server import GrpcServer
from sharemesh.serve.process.memory import bound_heap, tune_interpreter

TOPIC = TopicId(b"benchbenchbench!")
PARTITIONS = 256
SHARDS = 4


class AlwaysInitialized:
    """Share states that are there at once."""

    async def initialize(self, group_id, partitions):
        return dict.fromkeys(partitions, StateAnswer(ErrorCode.NONE))


async def main(directory):
    tune_interpreter()  # as every process of the product does
    bound_heap()
    clock = SystemClock()
    coordination = LocalCoordination(LocalStore(clock))
    await ensure_cluster(coordination, "bench", group_shards=SHARDS, state_shards=1)
    view = WatchedView(coordination, "bench", clock)
    await view.start()
    topic = TopicInfo("bench", TOPIC, PARTITIONS, {})
    await coordination.commit(
        [],
        [
            Put(view.keys.topic("bench"), records.encode_topic(topic)),
            Put(
                view.keys.cluster_configs,
                records.encode_configs({"group.share.max.size": "1000"}),
            ),
        ],
    )
    assert await view.wait_for(
        lambda: view.topic(TOPIC) is not None and bool(view.cluster_configs()), timeout_ms=5_000
    )
    ports = GroupCoordinatorPorts(
        clock=clock,
        view=view,
        authorizer=AllowAll(),
        logs=EmbeddedShardLogs(SystemDisk(Path(directory)), clock, LogSettings()),
        states=AlwaysInitialized(),
        coordination=coordination,
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
