"""Whether an acknowledgement is still about the lock that its record has now."""

import asyncio
from dataclasses import replace

import pytest

from sharemesh.client.consumer.acknowledgement_rounds import encode_together
from sharemesh.client.consumer.acknowledgement_sender import (
    ACKNOWLEDGE_RETRY_MS,
    AcknowledgementSender,
)
from sharemesh.client.consumer.consume_stream import LeaderSession
from sharemesh.client.consumer.deliveries import (
    AcknowledgementResult,
    Delivery,
    PartitionAcknowledgements,
    Payload,
)
from sharemesh.client.errors import InvalidRecordStateError, optional_error
from sharemesh.client.records import AcquiredRange, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.errors import ErrorCode
from tests.clocks import ManualClock

SOURCE = TopicIdPartition("orders", 0, b"o" * 16)


class Route(LeaderSession):
    """A session that notes what it is to carry."""

    def __init__(self):
        self.carried = []

    def acknowledge(self, acknowledgements, *, may_wait=False):
        self.carried += [(sorted(each.types), each.leader_epoch) for each in acknowledgements]

    def follows_until_ms(self, source, leader_epoch):
        return 0


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


@pytest.mark.parametrize(("came_epoch", "carried"), [(4, [3, 4, 5]), (5, [3]), (6, [3])])
async def test_what_waits_to_be_sent_again_is_given_up_for_records_that_come_anew_cl_36(
    came_epoch, carried
):
    route, clock, outcomes = Route(), ManualClock(), []
    sender = AcknowledgementSender(clock, list, outcomes.extend)
    types = dict.fromkeys((3, 4, 5), AcknowledgeType.ACCEPT)
    asked = PartitionAcknowledgements(SOURCE, route, 5, types, deadline_ms=clock.now_ms() + 60_000)
    sender.send([asked])
    route.carried.clear()
    refused = optional_error(ErrorCode.KAFKA_STORAGE_ERROR, "no broker", about="orders/0")
    sender.finished([AcknowledgementResult(asked, refused, 30_000)])
    await asyncio.sleep(0)
    sender.redelivered(held(route, came_epoch, 4, 9))
    await clock.advance(ACKNOWLEDGE_RETRY_MS)
    assert route.carried == [(carried, 5)]
    told = [(sorted(each.acknowledgements.types), type(each.error)) for each in outcomes]
    assert told == ([] if len(carried) == 3 else [([4, 5], InvalidRecordStateError)])
    await sender.close()


async def test_what_was_sent_again_is_reported_once_though_its_record_comes_in_the_same_turn():
    """CL-36: its result is the leader's, also before the task that sent it is forgotten."""
    clock, outcomes = ManualClock(), []
    sender = AcknowledgementSender(clock, list, outcomes.extend)

    class Quick(Route):
        """A session whose next delivery comes in the turn in which it is told something."""

        def acknowledge(self, acknowledgements, *, may_wait=False):
            super().acknowledge(acknowledgements)
            if len(self.carried) == 2:
                delivery = held(self, 5, 4, 9)
                asyncio.get_running_loop().call_soon(sender.redelivered, delivery)

    route = Quick()
    types = dict.fromkeys((3, 4, 5), AcknowledgeType.ACCEPT)
    asked = PartitionAcknowledgements(SOURCE, route, 5, types, deadline_ms=clock.now_ms() + 60_000)
    sender.send([asked])
    refused = optional_error(ErrorCode.KAFKA_STORAGE_ERROR, "no broker", about="orders/0")
    sender.finished([AcknowledgementResult(asked, refused, 30_000)])
    await asyncio.sleep(0)
    await clock.advance(ACKNOWLEDGE_RETRY_MS)
    assert route.carried == [([3, 4, 5], 5)] * 2
    sender.finished([AcknowledgementResult(asked, None, 30_000)])
    assert [sorted(each.acknowledgements.types) for each in outcomes] == [[3, 4, 5]]
    assert sender.unanswered == 0
    await sender.close()


@pytest.mark.parametrize("is_open", [True, False])
def test_a_hand_back_that_is_refused_for_a_part_of_it_gives_back_the_others_hbk_20(is_open):
    class Leader(Route):
        """It has decided on two of the records already."""

        given_back = ()

        def is_open_for(self, source, leader_epoch):
            return is_open

        def acknowledge(self, acknowledgements, *, may_wait=False):
            super().acknowledge(acknowledgements)
            for each in acknowledgements:
                refused = optional_error(121, "not acquired") if {3, 4} & set(each.types) else None
                self.given_back += () if refused else tuple(each.uncounted.items())
                sender.finished([AcknowledgementResult(each, refused, 30_000)])

    outcomes, route = [], Leader()
    sender = AcknowledgementSender(ManualClock(), list, outcomes.extend)
    counts = {offset: offset for offset in range(3, 12)}
    asked = replace(said(route, 5, *counts), unreported=True, uncounted=counts)
    sender.send([asked])
    given_back = tuple((offset, offset) for offset in range(5, 12))
    assert sorted(route.given_back) == list(given_back if is_open else ())
    assert len(route.carried) == (7 if is_open else 1)
    assert sender.failed == (2 if is_open else 9)
    assert (sender.unanswered, outcomes) == (0, [])


def test_a_hand_back_of_which_all_is_refused_comes_to_an_end_hbk_20():
    class Leader(Route):
        """It knows none of these locks."""

        def is_open_for(self, source, leader_epoch):
            return True

        def acknowledge(self, acknowledgements, *, may_wait=False):
            super().acknowledge(acknowledgements)
            refused = optional_error(121, "not acquired")
            sender.finished([AcknowledgementResult(each, refused, 0) for each in acknowledgements])

    route = Leader()
    sender = AcknowledgementSender(ManualClock(), list, lambda _: None)
    counts = dict.fromkeys(range(500), 1)
    sender.send([replace(said(route, 5, *counts), unreported=True, uncounted=counts)])
    assert len(route.carried) == 2 * 500 - 1
    assert (sender.failed, sender.unanswered) == (500, 0)


def test_a_hand_back_of_which_a_part_came_anew_names_the_rest_alone_hbk_7():
    """Its leader refuses all of it for one record that was granted again."""
    before, now = Route(), Route()
    outcomes, carried = [], []

    def carry(asked, *, may_wait):
        carried.extend(asked)

    before.acknowledge = carry
    sender = AcknowledgementSender(ManualClock(), lambda: [held(now, 6, 0, 1)], outcomes.extend)
    counts = dict.fromkeys(range(4), 1)
    types = dict.fromkeys(counts, AcknowledgeType.RELEASE)
    sender.send(
        [PartitionAcknowledgements(SOURCE, before, 5, types, unreported=True, uncounted=counts)]
    )
    (released,) = encode_together(carried)
    assert (released.first_offset, released.last_offset) == (2, 3)
    assert outcomes == [], "nobody is told of a hand-back"
