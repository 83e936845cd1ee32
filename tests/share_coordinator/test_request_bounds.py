"""A request that names too many share partitions is refused before any work is done for it."""

import pytest

from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.share_coordinator.world import CONTEXT, T1, Client, world


@pytest.mark.parametrize(("topics", "partitions"), [(11, 1), (11, 0), (1, 11), (3, 4)])
async def test_too_many_topics_or_share_partitions_are_refused(topics, partitions):
    async with world() as w, w.coordinator(requested_partitions=10) as service:
        await Client(service).I(0, 0)
        items = [pb.ReadPartitionState(partition=p) for p in range(partitions)]
        topic = pb.ReadTopicState(topic_id=T1, partitions=items)
        request = pb.ReadShareGroupStateRequest(group_id="g1", topics=[topic] * topics)
        with pytest.raises(CallFailedError, match="ask for at most 10") as refused:
            await service.read(request, CONTEXT)
        assert refused.value.failure is Failure.RESOURCE_EXHAUSTED
        assert (await Client(service).R(0)).error_code == 0
