"""A share coordinator process for fault trials.

    python -m tests.faults.state_node DIRECTORY EPOCH

Takes shard 0 of the state log over under EPOCH, prints its port, and serves until killed.
"""

import asyncio
import sys
from pathlib import Path

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.rpc.server import GrpcServer
from sharemesh.share_coordinator.service import ShareCoordinatorService
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from tests.bench.mesh_node import fixed_view


async def main(directory, epoch):
    clock = SystemClock()
    view = await fixed_view(clock)
    logs = EmbeddedShardLogs(SystemDisk(Path(directory)), clock, LogSettings())
    settings = ShareCoordinatorSettings(updates_per_snapshot=5)
    service = ShareCoordinatorService(view, clock, logs, settings)
    server = GrpcServer(reflection=False)
    service.offer(server)
    service.start()
    await service.shards.start_shard(0, int(epoch))
    print(await server.start("127.0.0.1", 0), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(0)
    await service.close()
    await view.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
