"""What a consumer must know of the little mesh, without a coordinator: its records are measured."""

import random
import uuid

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.environment import ClientEnvironment
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.v1 import admin_pb2, common_pb2, group_coordinator_pb2
from tests.bench.mesh_node import TOPIC

TOPIC_NAME = "bench"


class FixedMembership:
    """Answers metadata and heartbeats of one topic here; everything else goes to the leader."""

    def __init__(self, address, partitions):
        host, _, port = address.rpartition(":")
        self._node = common_pb2.Node(node_id="leader", host=host, port=int(port))
        self._partitions = range(partitions)
        self._caller = GrpcCaller(SystemClock())
        self._answers = {
            methods.METADATA.name: self._metadata,
            methods.FIND_COORDINATOR.name: self._coordinator,
            methods.SHARE_GROUP_HEARTBEAT.name: self._heartbeat,
            methods.API_VERSIONS.name: lambda _: admin_pb2.ApiVersionsResponse(),
        }

    async def call(self, method, request, *, to, timeout_ms=None):
        answer = self._answers.get(method.name)
        if answer is not None:
            return answer(request)
        return await self._caller.call(method, request, to=to, timeout_ms=timeout_ms)

    async def stream(self, method, *, to):
        if method.name == methods.SHARE_GROUP_HEARTBEAT_STREAM.name:
            raise CallFailedError(Failure.UNIMPLEMENTED, "heartbeats are single calls here")
        return await self._caller.stream(method, to=to)

    async def close(self):
        await self._caller.close()

    def _metadata(self, _):
        topic = admin_pb2.TopicMetadata(name=TOPIC_NAME, topic_id=TOPIC)
        for number in self._partitions:
            topic.partitions.add(partition=number, leader_id="leader", leader_epoch=1)
        return admin_pb2.MetadataResponse(nodes=[self._node], topics=[topic])

    def _coordinator(self, request):
        found = [admin_pb2.FoundCoordinator(key=key, node=self._node) for key in request.keys]
        return admin_pb2.FindCoordinatorResponse(coordinators=found)

    def _heartbeat(self, request):
        response = group_coordinator_pb2.ShareGroupHeartbeatResponse(
            member_id=request.member_id, heartbeat_interval_ms=5_000, member_epoch=2
        )
        if request.member_epoch <= 0:
            response.member_epoch = -1 if request.member_epoch < 0 else 2
            response.assignment.topic_partitions.add(
                topic_id=TOPIC, topic_name=TOPIC_NAME, partitions=self._partitions
            )
        return response


def environment(address, partitions):
    return ClientEnvironment(
        lambda: FixedMembership(address, partitions),
        SystemClock(),
        random.Random(1),
        lambda: str(uuid.uuid4()),
    )
