"""One process of the little mesh that the leader's figures are measured on.

    python -m tests.bench.mesh_node coordinator DIRECTORY
    python -m tests.bench.mesh_node leader DIRECTORY PARTITIONS COORDINATOR_PORT [GROUP ...]
    python -m tests.bench.mesh_node traced PERCENT ENDPOINT DIRECTORY PARTITIONS COORDINATOR_PORT
    python -m tests.bench.mesh_node bounded DIRECTORY PARTITIONS COORDINATOR_PORT
    python -m tests.bench.mesh_node sink
    python -m tests.bench.mesh_node bare

Prints its port, serves until its standard input ends. Views are fixed: no etcd is measured.
"""

import asyncio
import itertools
import random
import sys
import time
from pathlib import Path

import grpc
import uvloop

from sharemesh import methods
from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.cluster.acl_table import AllowAll
from sharemesh.cluster.quota_table import QuotaTable
from sharemesh.cluster.store.quota_records import alter_quotas
from sharemesh.domain.ids import NodeId, SharePartitionKey, TopicId, TopicPartition
from sharemesh.domain.quota.names import EntityType, QuotaEntity
from sharemesh.domain.quota.values import quota_named
from sharemesh.persister.persister import Persister
from sharemesh.ports.cluster import NodeInfo, Role, ShardKind
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.event_wakes import take_events_together
from sharemesh.rpc.server import GrpcServer
from sharemesh.serve.process.memory import MallocTrim, bound_heap, tune_interpreter
from sharemesh.serve.process.quota_listener import QuotaListener
from sharemesh.serve.process.telemetry_export import TelemetryExport
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.share_coordinator.service import ShareCoordinatorService
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.share_leader.service import ShareLeaderService
from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.share_leader.turns import SlicedWork
from sharemesh.telemetry.telemetry import without_export
from sharemesh.testing.cluster_records import ClusterRecords
from sharemesh.v1 import admin_pb2, record_log_pb2, share_coordinator_pb2, share_leader_pb2

TOPIC = TopicId(b"benchbenchbench!")
GROUP = "bench"
LARGEST_PARTITIONS = 256


class Ids:
    def __init__(self):
        self._ids = itertools.count(1)

    async def allocate(self):
        return next(self._ids)


async def fixed_view(clock, coordinator_port=0):
    return (await fixed_world(clock, coordinator_port)).view


async def fixed_world(clock, coordinator_port=0):
    world = ClusterRecords(clock, cluster_id="bench")
    await world.open()
    view = world.view
    node = NodeInfo(NodeId("sc"), "127.0.0.1", coordinator_port, (Role.SHARE_COORDINATOR,))
    await world.write(
        world.topic("bench", TOPIC, LARGEST_PARTITIONS),
        world.registered(node),
        world.elected(ShardKind.STATE, 0, node.node_id),
        world.group_settings(GROUP, {"share.auto.offset.reset": "earliest"}),
        until=lambda: (
            view.topic(TOPIC) and view.share_coordinator(0) and view.group_config_entries(GROUP)
        ),
    )
    return world


async def coordinator(server, directory):
    clock = SystemClock()
    view = await fixed_view(clock)
    logs = EmbeddedShardLogs(SystemDisk(Path(directory)), clock, LogSettings())
    service = ShareCoordinatorService(view, clock, logs, ShareCoordinatorSettings())
    service.offer(server)
    service.start()
    await service.shards.start_shard(0, 1)


async def leader(
    server, directory, partitions, coordinator_port, *more_groups, telemetry=None, bounds=None
):
    clock = SystemClock()
    view, quotas = bounds or (await fixed_view(clock, int(coordinator_port)), None)
    persister = Persister(GrpcCaller(clock), view, clock, random.Random(1))
    service = ShareLeaderService(
        node_id=NodeId("leader"),
        clock=clock,
        view=view,
        record_logs=EmbeddedRecordLogs(SystemDisk(Path(directory)), clock, LogSettings()),
        persister=persister,
        authorizer=AllowAll(),
        producer_ids=Ids(),
        settings=LeaderSettings(),
        telemetry=telemetry,
        quotas=quotas,
    )
    for number in range(int(partitions)):
        for group in (GROUP, *more_groups):
            key = SharePartitionKey(group, TOPIC, number)
            result = await persister.initialize_state(key, 1, 0)
            assert not result.error, result
        await service.start_partition(TopicPartition(TOPIC, number), 1)
    service.offer_on(server)


async def traced(server, percent, endpoint, directory, partitions, coordinator_port):
    """A leader with tracing on; its metrics page's port goes into ``metrics`` beside its logs."""
    settings = ServeSettings(
        cluster_id="bench",
        metrics_port=0,
        telemetry_endpoint=endpoint,
        record_sampling_percent=int(percent),
    )
    exporting = TelemetryExport(settings, "leader", SystemClock())
    port = await exporting.start()
    await leader(server, directory, partitions, coordinator_port, telemetry=exporting.telemetry)
    Path(directory, "metrics").write_text(str(port))


async def bounded(server, directory, partitions, coordinator_port):
    """A leader behind the listener of quotas; AlterClientQuotas sets them, or removes all.

    While there are none, large work takes no turns either: quotas and fairness together are
    what is compared with neither.
    """
    clock = SystemClock()
    world = await fixed_world(clock, int(coordinator_port))
    view = world.view
    telemetry = without_export(time.time_ns)
    quotas = QuotaTable(view, super_users=())
    in_turn = SlicedWork.spend

    async def alter(request, context):
        for entry in request.entries:
            (component,) = entry.entity
            entity = QuotaEntity(EntityType(component.entity_type), component.entity_name)
            changes = {
                quota_named(each.key, entity.entity_type): None if each.remove else each.value
                for each in entry.ops
            }
            await alter_quotas(world.coordination, view, entity, changes)
            await world.sees(lambda e=entity, c=changes: are_seen(quotas, e, c))
        is_free = all(each.remove for entry in request.entries for each in entry.ops)
        SlicedWork.spend = at_once if is_free else in_turn
        return admin_pb2.AlterClientQuotasResponse()

    async def at_once(work, partition, cost):
        pass

    server.offer(methods.ALTER_CLIENT_QUOTAS, alter)
    listener = QuotaListener(server, quotas, clock, telemetry)
    await leader(
        listener,
        directory,
        partitions,
        coordinator_port,
        telemetry=telemetry,
        bounds=(view, quotas),
    )


def are_seen(quotas, entity, changes):
    return all(quotas.limit(name, entity.name) == value for name, value in changes.items())


async def sink(server):
    """A collector that takes everything: OTLP's services, answered with an empty message."""

    async def export(request, context):
        return b""

    methods_of = {"Export": grpc.unary_unary_rpc_method_handler(export)}
    collector = grpc.aio.server()
    for name in ("trace.v1.TraceService", "metrics.v1.MetricsService"):
        collector.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    f"opentelemetry.proto.collector.{name}", methods_of
                ),
            )
        )
    port = collector.add_insecure_port("127.0.0.1:0")
    await collector.start()
    server.start = lambda *_: _ready(port)
    server.collector = collector


async def _ready(port):
    return port


async def bare(server):
    """The transport alone: a stream and a call that move the same bytes."""

    async def stream(stream, _):
        record_bytes = b""
        async for request in stream:
            if request.HasField("start"):
                record_bytes = request.start.group_id.encode() * request.start.batch_size
            for _ in range(request.credit_records):
                topic = share_leader_pb2.ShareFetchTopic(topic_id=TOPIC)
                topic.partitions.add(records=record_bytes)
                await stream.send(share_leader_pb2.ConsumeResponse(responses=[topic]))

    async def fetch(request, _):
        topic = share_leader_pb2.ShareFetchTopic(topic_id=TOPIC)
        topic.partitions.add(records=b"x" * request.max_bytes)
        return share_leader_pb2.ShareFetchResponse(responses=[topic])

    async def acknowledge(request, _):
        return share_leader_pb2.ShareAcknowledgeResponse()

    async def produce(request, _):
        return record_log_pb2.ProduceResponse(
            partitions=[
                record_log_pb2.ProducePartitionResult(topic_id=request.partitions[0].topic_id)
            ]
        )

    async def write_state(request, _):
        return share_coordinator_pb2.WriteShareGroupStateResponse()

    server.offer(methods.WRITE_SHARE_GROUP_STATE, write_state)
    server.offer_stream(methods.CONSUME, stream)
    server.offer(methods.SHARE_FETCH, fetch)
    server.offer(methods.SHARE_ACKNOWLEDGE, acknowledge)
    server.offer(methods.PRODUCE, produce)


async def main(role, *arguments):
    tune_interpreter()  # as every process of the product does
    bound_heap()
    take_events_together()
    heap = MallocTrim(SystemClock())
    heap.start()
    server = GrpcServer(reflection=False)
    await {f.__name__: f for f in (coordinator, leader, traced, bounded, sink, bare)}[role](
        server, *arguments
    )
    print(await server.start("127.0.0.1", 0), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(0)
    await heap.close()


if __name__ == "__main__":
    profile = None
    import os

    if os.environ.get("PROFILE") == sys.argv[1]:
        import cProfile

        profile = cProfile.Profile()
        profile.enable()
    uvloop.run(main(*sys.argv[1:]))
    if profile:
        import pstats

        profile.disable()
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(45)
    os._exit(0)
