"""The same service over real gRPC, asked by the persister."""

import asyncio
import random

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey
from sharemesh.domain.state_batch import StateBatch
from sharemesh.persister.persister import Persister
from sharemesh.ports.share_state import StateWrite
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.server import GrpcServer
from tests.clocks import LoopClock
from tests.share_coordinator.world import T1, world

DONE = StateBatch(0, 4, DeliveryState.ACKNOWLEDGED, 1, Cause.ACCEPT)


async def test_two_coordinators_share_the_shards_and_one_takes_over_from_the_other():
    async with world(state_shards=4, topics=(T1,)) as w:
        caller = GrpcCaller(LoopClock())
        persister = Persister(caller, w.view, w.clock, random.Random(1))
        keys = [SharePartitionKey(GroupId(f"g{n}"), T1, p) for n in range(6) for p in range(4)]
        assert {w.view.share_shard(key) for key in keys} == {0, 1, 2, 3}
        servers = []
        async with w.coordinator(shards=(0, 1)) as first, w.coordinator(shards=(2, 3)) as second:
            for name, service, leads in (("a", first, (0, 1)), ("b", second, (2, 3))):
                server = GrpcServer(reflection=False)
                service.offer(server)
                port = await server.start("127.0.0.1", 0)
                servers.append(server)
                await w.register(name, leads=leads, host="127.0.0.1", port=port)
            made = await asyncio.gather(*(persister.initialize_state(k, 3, 0) for k in keys))
            assert {result.error for result in made} == {ErrorCode.NONE}
            write = StateWrite(3, 0, 0, 5, (DONE,), Cause.ACCEPT)
            wrote = await asyncio.gather(*(persister.write_state(k, write) for k in keys))
            assert {result.error for result in wrote} == {ErrorCode.NONE}
            w.epoch += 1
            for shard in (2, 3):  # the second takes nothing back: the first is fenced in
                await first.shards.start_shard(shard, w.epoch)
            await w.register("a", leads=(0, 1, 2, 3), host="127.0.0.1", port=_port(w, "a"))
            read = await asyncio.gather(*(persister.read_state(k, 0) for k in keys))
            assert {result.error for result in read} == {ErrorCode.NONE}
            assert {result.batches for result in read} == {(DONE,)}
            assert {result.batches[0].cause for result in read} == {Cause.ACCEPT}
            assert {result.state_epoch for result in read} == {3}
        await persister.close()
        await caller.close()
        for server in servers:
            await server.stop(0)


def _port(w, node_id):
    return next(node.port for node in w.view.nodes() if node.node_id == node_id)
