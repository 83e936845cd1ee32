"""Deliveries of Kafka's clients find the grants that they are, and the epochs of these."""

import uuid

import pytest

from sharemesh.cluster.store.records import Claim
from sharemesh.domain.ids import NodeId, TopicId, TopicPartition, format_topic_id
from sharemesh.kafka.served_messages import response_frame
from sharemesh.kafka_listener.nodes import KafkaNodes
from sharemesh.kafka_listener.translation import share_fetch, share_group
from sharemesh.v1 import group_coordinator_pb2 as group_pb2
from sharemesh.v1 import share_leader_pb2 as pb
from tests.faults.kafka_clients import wire_grants
from tests.faults.kafka_clients.wire_grants import WireGrants
from tests.history.journal import Entry

TOPIC = TopicId(uuid.UUID(int=7).bytes)
PLACE = f"{format_topic_id(TOPIC)}/0"
MEMBER = "java-0"
REQUEST = b"\0\0\0\x0c" + b"\0\x4e\0\x02" + b"\0\0\0\x01" + b"\0\x06" + MEMBER.encode() + b"more"
OLD, NEW = 0, 1
NODES = ("share-leader-0", "share-leader-1")


class Wire:
    """Claims and answers at times of the test's."""

    def __init__(self, monkeypatch) -> None:
        self.now_ms = 0.0
        monkeypatch.setattr(wire_grants, "now_ms", lambda: self.now_ms)
        self.grants = WireGrants(NODES)
        self.grants.name(TOPIC, "orders")

    def claim(self, at_ms: float, server: int, epoch: int) -> None:
        self.now_ms = at_ms
        self.grants.claimed(PLACE, Claim(NodeId(NODES[server]), epoch))

    def answer(self, at_ms: float, server: int, first: int, last: int, *, whole: bool = True):
        self.now_ms = at_ms
        acquired = pb.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=1)
        part = pb.ShareFetchPartition(partition=0, acquired_records=[acquired])
        topic = pb.ShareFetchTopic(topic_id=TOPIC, partitions=[part])
        batches = {TopicPartition(TOPIC, 0): b"batch"}
        response = pb.ShareFetchResponse(responses=[topic])
        frame = share_fetch.to_frame(1, response, batches, KafkaNodes([]))
        self.grants.answered(server, REQUEST, b"".join(frame), whole)


@pytest.fixture
def wire(monkeypatch) -> Wire:
    return Wire(monkeypatch)


def delivered(at_ms: float, *offsets: int, count: int = 1) -> Entry:
    ranges = [[each, each, count] for each in offsets]
    return Entry(at_ms, MEMBER, "delivered", {"p": "orders/0", "le": -1, "r": ranges})


def told(wire: Wire, *entries: Entry) -> list[tuple[int, int, float]]:
    """Return offset, leader epoch and time of the grant of each delivery."""
    violations: list[str] = []
    found = wire.grants.attributed(entries, violations)
    assert not violations, violations
    return [
        (each.fields["r"][0][0], each.fields["le"], each.fields["granted_ms"]) for each in found
    ]


def test_a_delivery_has_the_epoch_under_which_its_node_led(wire):
    wire.claim(10, OLD, 4)
    wire.answer(20, OLD, 5, 6)
    assert told(wire, delivered(30, 5, 6)) == [(5, 4, 20), (6, 4, 20)]


def test_a_member_that_got_a_record_of_two_leaders_got_both(wire):
    """Its second word is not taken for a second delivery under one epoch."""
    wire.claim(10, OLD, 4)
    wire.answer(20, OLD, 5, 5)
    wire.claim(400, NEW, 5)
    wire.answer(410, NEW, 5, 5)
    assert told(wire, delivered(420, 5), delivered(430, 5)) == [(5, 4, 20), (5, 5, 410)]


def test_a_node_that_leads_again_has_its_newer_epoch(wire):
    for at_ms, node, epoch in ((0, OLD, 1), (1_000, NEW, 2), (2_000, OLD, 3)):
        wire.claim(at_ms, node, epoch)
    wire.answer(500, OLD, 1, 1)
    wire.answer(1_900, OLD, 2, 2)  # the claim is heard of a little later
    assert told(wire, delivered(600, 1)) == [(1, 1, 500)]
    assert told(wire, delivered(2_100, 2)) == [(2, 3, 1_900)]


def test_what_was_cut_short_is_no_grant_but_counted(wire):
    wire.claim(10, OLD, 4)
    wire.answer(20, OLD, 5, 5, whole=False)
    assert wire.grants.lost([MEMBER], "orders/0", 5) == 1
    assert wire.grants.lost(["java-1"], "orders/0", 5) == 0
    with pytest.raises(AssertionError, match="nobody granted"):
        told(wire, delivered(30, 5))


@pytest.mark.parametrize("entry", [delivered(30, 5, count=2), delivered(15, 5)])
def test_nobody_gets_what_was_not_granted(wire, entry):
    wire.claim(10, OLD, 4)
    wire.answer(20, OLD, 5, 5)
    with pytest.raises(AssertionError, match="nobody granted"):
        told(wire, entry)


@pytest.mark.parametrize(("error", "known"), [(0, {MEMBER: 40}), (16, {})])
def test_a_heartbeat_counts_if_its_coordinator_answered(wire, error, known):
    wire.now_ms = 40
    asked = REQUEST.replace(b"\0\x4e\0\x02", b"\0\x4c\0\x01")
    content = share_group.to_answer(
        group_pb2.ShareGroupHeartbeatResponse(error_code=error, member_id="m")
    )
    wire.grants.answered(OLD, asked, response_frame(76, 1, 1, content), True)
    assert wire.grants.heartbeats == known


def test_what_is_no_share_fetch_is_left_alone(wire):
    wire.grants.answered(OLD, b"\0\0\0\x0c\0\x03\0\x0d\0\0\0\x01\xff\xff", b"anything", True)
