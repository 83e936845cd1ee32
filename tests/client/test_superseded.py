"""What waits is dropped as soon as a later leader has sent, or it comes anew: its lock is gone."""

import pytest

from sharemesh.client.consumer.deliveries import Delivery, PartitionAcknowledgements, Payload
from sharemesh.client.consumer.unseen_records import UnseenRecords
from sharemesh.client.records import AcquiredRange, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType
from tests.clocks import ManualClock

ORDERS, NOTES = (TopicIdPartition(name, 0, name[:1].encode() * 16) for name in ("orders", "notes"))
LOCK_MS = 30_000


class Ended:
    """The session with a leader that handed nothing over, and ended or not."""

    def is_open_for(self, *_):
        return True

    def may_live_on(self, *_):
        return False


def sent(clock, source, epoch, first, last):
    acquired = (AcquiredRange(first, last, 1),)
    expires_ms = clock.now_ms() + LOCK_MS
    return Delivery(source, Ended(), Payload(b""), acquired, epoch, LOCK_MS, expires_ms)


class Records:
    """Records that wait for an application, which waits for them too."""

    def __init__(self):
        self.clock, self.given_back = ManualClock(), []
        self.unseen = UnseenRecords(
            self.clock,
            at_once=500,
            kept=500,
            give_back=self.given_back.extend,
            hold_back=lambda: None,
            acquire=lambda _: None,
        )
        self.unseen.fetch_begins()

    def arrive(self, *deliveries):
        for source, epoch, first, last in deliveries:
            self.unseen.arrived(sent(self.clock, source, epoch, first, last))

    def taken(self):
        return [
            (each.source.topic, each.leader_epoch, each.acquired[0].first_offset)
            for each in self.unseen.take(500)
        ]


@pytest.mark.parametrize(
    "arriving",
    [
        [(ORDERS, 4, 49, 51), (ORDERS, 5, 48, 51)],
        [(ORDERS, 5, 48, 51), (ORDERS, 4, 49, 51)],
        [(ORDERS, 4, 40, 42), (ORDERS, 5, 48, 51)],
    ],
    ids=["the later one comes last", "the earlier one is late", "of other records"],
)
async def test_only_what_the_latest_leader_sent_is_handed_out(arriving):
    records = Records()
    records.arrive(*arriving)
    assert records.taken() == [("orders", 5, 48)]
    assert records.given_back == [], "there is nobody to give it back to"
    assert records.unseen.expired > 0


async def test_a_record_that_comes_anew_waits_once_and_is_given_back_as_it_came_last():
    """HBK-22: its lock ended while this member was frozen."""
    records = Records()
    records.arrive((ORDERS, 4, 16, 33), (NOTES, 4, 16, 33), (ORDERS, 4, 34, 35))
    [taken] = records.unseen.take(9)
    assert taken.acquired[0].last_offset == 24
    records.arrive((ORDERS, 4, 16, 33))
    assert records.unseen.expired == 9
    assert records.taken() == [("notes", 4, 16), ("orders", 4, 34), ("orders", 4, 16)]


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        (AcknowledgeType.ACCEPT, [2, 3]),
        (AcknowledgeType.REJECT, [2, 3]),
        (AcknowledgeType.RELEASE, [1, 2, 3]),
    ],
)
async def test_a_record_that_came_anew_and_is_finished_waits_no_longer(kind, left):
    """HBK-22: what was said of the delivery before was taken for this one."""
    records = Records()
    records.arrive((ORDERS, 4, 1, 3))
    [taken] = records.unseen.take(3)
    records.arrive((ORDERS, 4, 1, 3))
    records.unseen.confirmed(PartitionAcknowledgements(*taken.acquired_in, {1: kind}))
    assert [offset for each in records.unseen.take(9) for offset in each.offsets()] == left


async def test_what_is_put_back_after_it_came_anew_is_dropped_and_counted():
    """HBK-22: a poll had taken it, and did not return it."""
    records = Records()
    records.arrive((ORDERS, 4, 1, 9))
    taken = records.unseen.take(9)
    records.arrive((ORDERS, 4, 3, 9))
    records.unseen.put_back(taken)
    assert records.unseen.expired == 7
    assert [list(each.offsets()) for each in records.unseen.take(9)] == [[1, 2], [*range(3, 10)]]
    await records.unseen.close()


async def test_partitions_have_epochs_of_their_own():
    records = Records()
    records.arrive((ORDERS, 4, 0, 9), (NOTES, 7, 0, 9), (ORDERS, 4, 10, 19))
    assert records.taken() == [("orders", 4, 0), ("notes", 7, 0), ("orders", 4, 10)]
