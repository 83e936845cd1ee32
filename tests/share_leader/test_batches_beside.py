"""Record batches beside an answer: a caller in the same process passes them on as they are."""

from dataclasses import replace

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_partition.effects import AcquiredRun
from sharemesh.ports.network import CallContext
from sharemesh.share_leader.requests.acquisition import PartitionFetch
from sharemesh.share_leader.requests.fetch_response import FetchResponse
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.world import FOO, TopicPartition, world

P0 = TopicPartition(FOO, 0)


async def test_a_caller_that_wants_batches_beside_the_answer_gets_the_bytes_that_were_read():
    """KLS-14."""
    async with world() as w:
        batches = {}
        response = FetchResponse(pb.ShareFetchResponse(), w.view, batches)
        run = AcquiredRun(0, 1, 1)
        taken = PartitionFetch(P0, 1, b"two records", (run,), 2)
        await response.add_taken(taken, None)
        assert batches[P0] is taken.records
        assert (response.entry(P0).records, response.record_bytes) == (b"", 11)
        assert response.withhold(P0, (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "gone")) == [(0, 1)]
        assert batches == {}, "AUT-4"


def test_batches_stand_in_the_answer_unless_somebody_asks():
    assert CallContext("peer").batches is None
    assert replace(CallContext("peer"), batches={}).batches == {}
