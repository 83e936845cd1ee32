"""Share sessions, fetches, acknowledgements: numbers that lie, members that do not exist."""

from sharemesh import methods as m
from sharemesh.v1 import record_log_pb2
from sharemesh.v1.share_leader_pb2 import (
    ConsumeRequest,
    HoldSessionRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from tests.faults.abuse.abused_cluster import (
    ALICES,
    MALLOR,
    MINE,
    NO_RIGHT,
    OTHER_RIGHT,
    PAYLOAD,
    REVOKED,
    ROOM,
    SAME_GROUP,
    SECRET,
    Stage,
)
from tests.faults.abuse.kinds import abuse, error_codes, flood

SESSIONS = 2_100
INTS = (0, 1, -1, 2, -2, 2**31 - 1, -(2**31))
LONGS = (0, 1, -1, 2**40, 2**62, 2**63 - 1, -(2**63))
SEEN_IN_ROOM = ("topic id", "topic name", "payload", "group")


def fetch(topic_id: bytes, group: str, member: str, **numbers: int) -> ShareFetchRequest:
    """Return a fetch of two partitions."""
    given = {"max_bytes": 1 << 20, "max_records": 10} | numbers
    request = ShareFetchRequest(group_id=group, member_id=member)
    for name, value in given.items():
        setattr(request, name, value)
    parts = request.topics.add(topic_id=topic_id).partitions
    for partition in (0, 1):
        parts.add(partition=partition)
    return request


def acknowledge(
    topic_id: bytes, group: str, member: str, first: int, last: int, kinds: list[int],
    epoch: int = 1,
) -> ShareAcknowledgeRequest:  # fmt: skip
    """Return an acknowledgement of a range."""
    request = ShareAcknowledgeRequest(group_id=group, member_id=member, share_session_epoch=epoch)
    part = request.topics.add(topic_id=topic_id).partitions.add(partition=0)
    part.acknowledgement_batches.add(first_offset=first, last_offset=last, acknowledge_types=kinds)
    return request


@abuse(OTHER_RIGHT, finding=8, once=True)
async def sessions_of_invented_members(stage: Stage, who: str) -> None:
    """2,100 sessions of members that never joined, in twenty groups."""
    topic = stage.topic_ids[MINE]
    requests = (
        fetch(topic, f"{MALLOR}-s{number % 20}", f"ghost-{number}", max_records=1)
        for number in range(SESSIONS)
    )
    await flood(stage, who, "share-leader", m.SHARE_FETCH, requests, at_once=8)


@abuse(OTHER_RIGHT)
async def session_epochs_that_lie(stage: Stage, who: str) -> None:
    """Epochs from one end of the numbers to the other."""
    topic = stage.topic_ids[MINE]
    for epoch in INTS:
        request = fetch(topic, MALLOR + "y", "epochs", share_session_epoch=epoch)
        await stage.send(who, "share-leader", m.SHARE_FETCH, request)


@abuse(OTHER_RIGHT)
async def fetches_whose_numbers_lie(stage: Stage, who: str) -> None:
    """Sizes, waits and modes below nothing and beyond all."""
    topic = stage.topic_ids[MINE]
    requests = [
        fetch(topic, MALLOR + "y", "numbers", **{name: number})
        for number in INTS
        for name in ("max_bytes", "max_records", "min_bytes", "batch_size", "share_acquire_mode",
                     "version", "record_format")
    ]  # fmt: skip
    await flood(stage, who, "share-leader", m.SHARE_FETCH, requests, at_once=4, timeout_s=3.0)


@abuse(OTHER_RIGHT)
async def partitions_added_and_forgotten(stage: Stage, who: str) -> None:
    """A stream that adds ten thousand partitions and forgets them in the next word."""
    topic = stage.topic_ids[MINE]
    request = ConsumeRequest(credit_records=1)
    request.start.group_id, request.start.member_id = MALLOR + "y", "adds"
    request.add.add(topic_id=topic, partitions=range(10_000))
    request.forget.add(topic_id=topic, partitions=range(10_000))
    await stage.heard(who, "share-leader", m.CONSUME, request, request, for_s=0.7)


@abuse(OTHER_RIGHT)
async def credit_without_end(stage: Stage, who: str) -> None:
    """Streams with credit below nothing and beyond all."""
    for number in LONGS:
        request = ConsumeRequest(credit_records=number, credit_bytes=number)
        request.start.group_id, request.start.member_id = MALLOR + "-credit", f"m{number}"
        request.add.add(topic_id=stage.topic_ids[MINE], partitions=[0])
        await stage.heard(who, "share-leader", m.CONSUME, request, request, for_s=0.2)


@abuse(OTHER_RIGHT)
async def acknowledgements_that_lie(stage: Stage, who: str) -> None:
    """Ranges that end before they begin, of all offsets, and of types that do not exist."""
    topic, group = stage.topic_ids[MINE], MALLOR + "y"
    await stage.send(who, "share-leader", m.SHARE_FETCH, fetch(topic, group, "liar"))
    requests = [
        acknowledge(topic, group, "liar", first, last, kinds)
        for first in LONGS
        for last in (0, 2**63 - 1, -(2**63))
        for kinds in ([], [1], [9], [-1] * 1_000)
    ]
    await flood(stage, who, "share-leader", m.SHARE_ACKNOWLEDGE, requests, at_once=4)


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED)
async def acknowledgements_in_groups_of_others(stage: Stage, who: str) -> None:
    """Accept what the quiet tenant holds, from outside its group."""
    request = acknowledge(stage.topic_ids[SECRET], ALICES, "anybody", 0, 10_000, [1])
    answer = await stage.ask(who, "share-leader", m.SHARE_ACKNOWLEDGE, request)
    assert answer.error_code == 30, f"{who}: {answer.error_code}"


@abuse(SAME_GROUP, finding=16, may_see=SEEN_IN_ROOM)
async def records_of_another_member_acknowledged(stage: Stage, who: str) -> None:
    """A member of the same group accepts what another member holds: nothing of it counts."""
    topic = stage.topic_ids[SECRET]
    produced = record_log_pb2.ProduceRequest()
    part = produced.partitions.add(topic_id=topic, partition=0)
    part.decoded_records.add(value=PAYLOAD)
    await stage.ask("alice", "share-leader", m.PRODUCE, produced)
    held = await stage.ask(
        "alice", "share-leader", m.SHARE_FETCH, fetch(topic, ROOM, "alices-member")
    )
    offsets = [
        (each.first_offset, each.last_offset)
        for answered in held.responses
        for partition in answered.partitions
        if partition.partition == 0
        for each in partition.acquired_records
    ]
    await stage.send(who, "share-leader", m.SHARE_FETCH, fetch(topic, ROOM, "sams-member"))
    for first, last in offsets:
        request = acknowledge(topic, ROOM, "sams-member", first, last, [1])
        answer = await stage.ask(who, "share-leader", m.SHARE_ACKNOWLEDGE, request)
        codes = error_codes(answer)
        assert codes - {0}, f"records {first} to {last} of another member were accepted"
    for member in ("sams-member", "alices-member"):
        user = who if member.startswith("sam") else "alice"
        closing = fetch(topic, ROOM, member, share_session_epoch=-1)
        await stage.send(user, "share-leader", m.SHARE_FETCH, closing)


@abuse(SAME_GROUP, OTHER_RIGHT, NO_RIGHT, finding=16, may_see=SEEN_IN_ROOM)
async def sessions_of_another_member_taken(stage: Stage, who: str) -> None:
    """A session that another principal opened is neither used, held nor closed."""
    topic = stage.topic_ids[SECRET]
    opening = fetch(topic, ROOM, "alices-session")
    await stage.send("alice", "share-leader", m.SHARE_FETCH, opening)
    for epoch in (0, 1, -1):
        request = fetch(topic, ROOM, "alices-session", share_session_epoch=epoch)
        answer = await stage.ask(who, "share-leader", m.SHARE_FETCH, request)
        assert answer.error_code in {25, 30, 122}, f"{who} took a session: {answer.error_code}"
    hold = HoldSessionRequest(group_id=ROOM, member_id="alices-session")
    await stage.heard(who, "share-leader", m.HOLD_SESSION, hold, for_s=0.3)
    going_on = fetch(topic, ROOM, "alices-session", share_session_epoch=1)
    answer = await stage.ask("alice", "share-leader", m.SHARE_FETCH, going_on)
    assert answer.error_code == 0, f"alice lost her session: {answer.error_code}"
    closing = fetch(topic, ROOM, "alices-session", share_session_epoch=-1)
    await stage.send("alice", "share-leader", m.SHARE_FETCH, closing)


@abuse(SAME_GROUP, may_see=SEEN_IN_ROOM)
async def records_rejected_by_a_member_of_the_same_group(stage: Stage, who: str) -> None:
    """Allowed by design in one's own group; it must not reach other groups."""
    topic = stage.topic_ids[SECRET]
    got = await stage.ask(who, "share-leader", m.SHARE_FETCH, fetch(topic, ROOM, "spoiler"))
    for answered in got.responses:
        for partition in answered.partitions:
            for each in partition.acquired_records:
                request = acknowledge(
                    topic, ROOM, "spoiler", each.first_offset, each.last_offset, [3]
                )
                await stage.send(who, "share-leader", m.SHARE_ACKNOWLEDGE, request)
    closing = fetch(topic, ROOM, "spoiler", share_session_epoch=-1)
    await stage.send(who, "share-leader", m.SHARE_FETCH, closing)


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED)
async def fetches_of_the_quiet_tenants_topic(stage: Stage, who: str) -> None:
    """In the quiet tenant's group, and in a group of one's own; or one more session is too many."""
    for group in (ALICES, MALLOR + "y"):
        request = fetch(stage.topic_ids[SECRET], group, "thief")
        answer = await stage.ask(who, "share-leader", m.SHARE_FETCH, request)
        assert error_codes(answer) & {29, 30, 133}, f"{who} in {group}: {answer}"


@abuse(OTHER_RIGHT)
async def one_member_on_many_streams(stage: Stage, who: str) -> None:
    """One member id on fifty streams, each of which replaces the one before."""
    request = ConsumeRequest(credit_records=1)
    request.start.group_id, request.start.member_id = MALLOR + "y", "doubled"
    request.add.add(topic_id=stage.topic_ids[MINE], partitions=[0])
    for _ in range(25):
        await stage.heard(who, "share-leader", m.CONSUME, request, for_s=0.02)
