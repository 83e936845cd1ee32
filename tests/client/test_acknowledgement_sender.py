"""Whether an acknowledgement is still about the lock that its record has now."""

import pytest

from sharemesh.client.consumer.acknowledgement_sender import AcknowledgementSender
from sharemesh.client.consumer.consume_stream import LeaderSession
from sharemesh.client.consumer.deliveries import Delivery, PartitionAcknowledgements, Payload
from sharemesh.client.records import AcquiredRange, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType
from tests.clocks import ManualClock

SOURCE = TopicIdPartition("orders", 0, b"o" * 16)


class Route(LeaderSession):
    """A session that notes what it is to carry."""

    def __init__(self):
        self.carried = []

    def acknowledge(self, acknowledgements, *, may_wait=False):
        self.carried += [(sorted(each.types), each.leader_epoch) for each in acknowledgements]


def held(route, epoch, first, last):
    acquired = (AcquiredRange(first, last, 1),)
    return Delivery(SOURCE, route, Payload(b""), acquired, epoch, 30_000, 30_000)


def said(route, epoch, *offsets):
    types = dict.fromkeys(offsets, AcknowledgeType.RELEASE)
    return PartitionAcknowledgements(SOURCE, route, epoch, types)


@pytest.mark.parametrize(("waiting_epoch", "carried"), [(4, [([3, 4], 5)]), (5, []), (6, [])])
def test_a_record_that_waits_anew_has_lost_the_lock_that_is_spoken_of(waiting_epoch, carried):
    before, now = Route(), Route()
    outcomes = []
    waiting = [held(before, waiting_epoch, 0, 9)]
    sender = AcknowledgementSender(ManualClock(), lambda: waiting, outcomes.extend)
    sender.send([said(now, 5, 3, 4)])
    assert now.carried == carried, "what an earlier leader sent is older than what is spoken of"
    assert [sorted(each.acknowledgements.types) for each in outcomes] == [[3, 4]] * (not carried)
