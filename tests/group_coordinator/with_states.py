"""The group coordinator's world with a real share coordinator and the real persister."""

import random
from contextlib import asynccontextmanager

from sharemesh import methods
from sharemesh.domain.ids import GroupId, SharePartitionKey
from sharemesh.persister.persister import Persister
from sharemesh.ports.cluster import Role
from sharemesh.share_coordinator.service import ShareCoordinatorService
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.v1 import common_pb2, share_coordinator_pb2
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.group_coordinator.world import topic_id, world

STATE_ADDRESS = "states:1"


class Mesh:
    """Group coordinator, share coordinator, persister; their lives can be ended and begun."""

    def __init__(self, made):
        self.made = made
        self.persister = Persister(made.network.caller(), made.view, made.clock, random.Random(3))
        made.states = self.persister
        self.service = None
        self.epoch = 0

    async def start_states(self):
        """Begin a new life of the share coordinator."""
        await self.stop_states()
        made = self.made
        settings = ShareCoordinatorSettings(metadata_wait_ms=0)
        self.service = ShareCoordinatorService(made.view, made.clock, made.logs, settings)
        self.service.offer(made.network.listener(STATE_ADDRESS))
        self.service.start()
        self.epoch += 1
        await self.service.shards.start_shard(0, self.epoch)
        await made.elect("states", role=Role.SHARE_COORDINATOR)

    async def stop_states(self):
        if self.service is not None:
            service, self.service = self.service, None
            await service.close()

    async def close(self):
        await self.stop_states()
        await self.made.stop()
        await self.persister.close()

    async def read(self, name, partition, leader_epoch=1, group="g"):
        """Read as a leader does when it begins."""
        key = SharePartitionKey(GroupId(group), topic_id(name), partition)
        return await self.persister.read_state(key, leader_epoch)

    async def write(self, name, partition, *, start, complete, batches=(), epoch, group="g"):
        """Write as a leader does; batches are (first, last, state, count)."""
        request = share_coordinator_pb2.WriteShareGroupStateRequest(group_id=group)
        topic = request.topics.add(topic_id=topic_id(name))
        topic.partitions.add(
            partition=partition,
            state_epoch=epoch,
            leader_epoch=1,
            start_offset=start,
            delivery_complete_count=complete,
            state_batches=[
                common_pb2.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in batches
            ],
        )
        caller = self.made.network.caller()
        response = await caller.call(methods.WRITE_SHARE_GROUP_STATE, request, to=STATE_ADDRESS)
        return response.results[0].partitions[0].error_code

    async def offsets(self, group="g"):
        """Describe all offsets of a group: {(topic, partition): (start, lag)}."""
        request = pb.DescribeShareGroupOffsetsRequest(
            groups=[pb.DescribeShareGroupOffsetsGroup(group_id=group)]
        )
        response = await self.made.call(methods.DESCRIBE_SHARE_GROUP_OFFSETS, request)
        [found] = response.groups
        assert found.error_code == 0, found.error_message
        return {
            (topic.topic_name, each.partition): (each.start_offset, each.lag)
            for topic in found.topics
            for each in topic.partitions
        }

    async def alter(self, name, partition, offset, group="g"):
        """Alter one start offset and return its error."""
        request = pb.AlterShareGroupOffsetsRequest(group_id=group)
        request.topics.add(topic_name=name).partitions.add(partition=partition, start_offset=offset)
        response = await self.made.call(methods.ALTER_SHARE_GROUP_OFFSETS, request)
        assert response.error_code == 0, response.error_message
        return response.topics[0].partitions[0].error_code


@asynccontextmanager
async def mesh(**topics):
    async with world(started=False, **topics) as made:
        meshed = Mesh(made)
        try:
            await meshed.start_states()
            await made.start()
            yield meshed
        finally:
            await meshed.close()
