"""AUT-4 to AUT-8: what a right that is taken away does to calls that are open."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.v1 import admin_pb2 as admin
from sharemesh.v1 import group_coordinator_pb2 as groups
from sharemesh.v1 import share_leader_pb2 as leader
from tests.authorization.world import ADDRESS, ROOT, WAIT_S, heartbeat, running_world

ANN = "User:ann"
GROUP, TOPIC, OTHER = "workers", "jobs", "notes"
READ, DESCRIBE, WRITE = Operation.READ, Operation.DESCRIBE, Operation.WRITE
ON_GROUP, ON_TOPIC = ResourceType.GROUP, ResourceType.TOPIC
SOON_S = 0.3  # long enough for what would come by mistake


@pytest.fixture
async def world():
    async with running_world() as made:
        made.jobs = await made.create_topic(TOPIC, 1)
        made.notes = await made.create_topic(OTHER, 1)
        await made.begin_at_earliest(GROUP)
        await made.allow(ANN, READ, ON_GROUP, GROUP)
        await made.allow(ANN, READ, ON_TOPIC, TOPIC)
        await made.allow(ANN, DESCRIBE, ON_TOPIC, OTHER)
        await made.join(ANN, GROUP, "ann", TOPIC, OTHER)
        yield made


def fetch(world, *, epoch=0, member="ann", wait_ms=8_000):
    request = leader.ShareFetchRequest(
        group_id=GROUP,
        member_id=member,
        share_session_epoch=epoch,
        max_bytes=100_000,
        max_records=100,
        batch_size=100,
        min_bytes=1,
        max_wait_ms=wait_ms,
        record_format=leader.RECORD_FORMAT_DECODED,
    )
    if epoch == 0:
        request.topics.add(topic_id=world.jobs).partitions.add(partition=0)
    return request


def consume(world, *topics, credit=100, max_records=0):
    request = leader.ConsumeRequest(credit_records=credit)
    request.start.group_id, request.start.member_id = GROUP, "ann"
    request.start.max_records = max_records
    request.start.record_format = leader.RECORD_FORMAT_DECODED
    for topic in topics or (world.jobs,):
        request.add.add(topic_id=topic, partitions=[0])
    return request


def entries(response):
    return [part for topic in response.responses for part in topic.partitions]


def values(response):
    return [one.value for part in entries(response) for one in part.decoded_records]


async def someone_else_gets(world, *expected):
    """Whoever has the rights gets it at once, before any lock could have run out.

    What a stream held comes back a moment after its end, so it may come in a fetch of its own.
    """
    counts, request = {}, fetch(world, member="root", wait_ms=5_000)
    while len(counts) < len(expected):
        answer = await world.call(ROOT, methods.SHARE_FETCH, request)
        assert values(answer), f"got {counts}, then nothing for 5 s"
        for part in entries(answer):
            counts.update({one.value: one.delivery_count for one in part.decoded_records})
        request = fetch(world, member="root", epoch=request.share_session_epoch + 1, wait_ms=5_000)
    assert set(counts) == set(expected)
    return [counts[value] for value in expected]


class Opened:
    """A stream of ann's; answers are read as they come."""

    def __init__(self, stream):
        self.stream = stream
        self.answers = aiter(stream)

    @classmethod
    async def consume(cls, world, *topics, **options):
        opened = cls(await world.caller(ANN).stream(methods.CONSUME, to=ADDRESS))
        await opened.stream.send(consume(world, *topics, **options))
        return opened

    async def next(self):
        return await asyncio.wait_for(anext(self.answers, None), WAIT_S)

    async def silent(self):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(self.answers), SOON_S)


async def waiting_fetch(world):
    """Return the task of a fetch that waits for its first record."""
    await world.call(ANN, methods.SHARE_FETCH, fetch(world, wait_ms=0))
    task = asyncio.create_task(world.call(ANN, methods.SHARE_FETCH, fetch(world, epoch=1)))
    shares = world.shares(world.jobs, GROUP)
    await world.until(lambda: shares().has_waiters)
    return task


async def test_a_waiting_fetch_gets_nothing_of_a_topic_whose_right_went_meanwhile(world):
    waiting = await waiting_fetch(world)
    await world.forbid(ANN, ON_TOPIC, READ)
    await world.produce(world.jobs, 0, b"new")
    answer = await waiting
    assert [(part.error_code, values(answer)) for part in entries(answer)] == [(29, [])]
    assert await someone_else_gets(world, b"new") == [1]  # nobody was granted it before


async def test_a_waiting_fetch_gets_nothing_of_a_group_whose_right_went_meanwhile(world):
    waiting = await waiting_fetch(world)
    await world.forbid(ANN, ON_GROUP)
    await world.produce(world.jobs, 0, b"new")
    answer = await waiting
    assert (answer.error_code, entries(answer)) == (30, [])
    assert await someone_else_gets(world, b"new") == [1]


async def test_records_that_wait_beside_an_acknowledgement_are_withheld_and_released(world):
    await world.produce(world.jobs, 0, b"one")
    first = await world.call(ANN, methods.SHARE_FETCH, fetch(world))
    assert values(first) == [b"one"]
    await world.produce(world.jobs, 0, b"two")
    request = fetch(world, epoch=1, wait_ms=0)
    part = request.topics.add(topic_id=world.jobs).partitions.add(partition=0)
    part.acknowledgement_batches.add(first_offset=0, last_offset=0, acknowledge_types=[1])
    world.states_wait.clear()
    fetching = asyncio.create_task(world.call(ANN, methods.SHARE_FETCH, request))
    shares = world.shares(world.jobs, GROUP)
    await world.until(lambda: shares().machine.next_fetch_offset() == 2)  # two is granted
    await world.forbid(ANN, ON_TOPIC, READ)
    world.states_wait.set()
    answer = await fetching
    [entry] = entries(answer)
    assert (entry.error_code, entry.acknowledge_error_code, values(answer)) == (29, 0, [])
    assert await someone_else_gets(world, b"two") == [1]  # a grant that nobody saw is none


async def test_a_partition_leaves_a_consume_stream_when_its_topic_may_not_be_read(world):
    await world.allow(ANN, READ, ON_TOPIC, OTHER)
    opened = await Opened.consume(world, world.jobs, world.notes)
    await world.produce(world.jobs, 0, b"held")
    assert values(await opened.next()) == [b"held"]
    rules = [rule for rule in world.view.tables.acls.values() if rule.name == TOPIC]
    assert len(rules) == 1
    await world.forbid_rule(rules[0])
    told = await opened.next()
    assert [part.error_code for part in entries(told)] == [29]
    assert TOPIC not in str(told)
    await world.produce(world.jobs, 0, b"later")
    assert await someone_else_gets(world, b"held", b"later") == [2, 1]
    await world.produce(world.notes, 0, b"note")  # the stream goes on with what may be read
    assert values(await opened.next()) == [b"note"]
    await opened.silent()


async def test_a_consume_stream_ends_when_its_group_may_not_be_read(world):
    opened = await Opened.consume(world)
    await world.produce(world.jobs, 0, b"held")
    assert values(await opened.next()) == [b"held"]
    await world.forbid(ANN, ON_GROUP)
    last = await opened.next()
    assert (last.error_code, entries(last)) == (30, [])
    assert await opened.next() is None
    await world.produce(world.jobs, 0, b"later")
    assert await someone_else_gets(world, b"held", b"later") == [2, 1]


async def test_what_waits_to_be_sent_to_a_slow_client_is_withheld_and_released(world):
    opened = await Opened.consume(world, credit=1_000, max_records=1)
    total = 40
    for number in range(total):
        await world.produce(world.jobs, 0, b"%d" % number)
    shares = world.shares(world.jobs, GROUP)
    # The client does not read: the stream takes what fits, and stops.
    await world.until(lambda: shares() is not None and shares().machine.next_fetch_offset() > 1)
    await world.until_still(shares().machine.next_fetch_offset)
    granted = shares().machine.next_fetch_offset()
    assert granted < total
    await world.forbid(ANN, ON_GROUP)
    seen = []
    while (answer := await opened.next()) is not None:
        seen += values(answer)
    assert answer is None
    assert len(seen) < granted  # some were granted, and waited, and were not handed out
    everything = [b"%d" % number for number in range(total)]
    got, counts = [], {}
    request = fetch(world, member="root", wait_ms=5_000)
    while len(got) < total:
        answer = await world.call(ROOT, methods.SHARE_FETCH, request)
        got += values(answer)
        for part in entries(answer):
            counts.update({one.offset: one.delivery_count for one in part.decoded_records})
        request = fetch(world, member="root", epoch=request.share_session_epoch + 1, wait_ms=5_000)
    assert sorted(got) == sorted(everything)
    assert {offset for offset, count in counts.items() if count > 1} == {int(each) for each in seen}


async def test_credit_of_withheld_records_is_not_lost(world):
    await world.allow(ANN, READ, ON_TOPIC, OTHER)
    """Sixty were granted in all: what was withheld can be got of another topic."""
    opened = await Opened.consume(world, world.jobs, world.notes, credit=60, max_records=1)
    for number in range(60):
        await world.produce(world.jobs, 0, b"%d" % number)
    shares = world.shares(world.jobs, GROUP)
    await world.until(lambda: shares() is not None and shares().machine.next_fetch_offset() > 1)
    await world.until_still(shares().machine.next_fetch_offset)
    [rule] = [rule for rule in world.view.tables.acls.values() if rule.name == TOPIC]
    await world.forbid_rule(rule)
    await world.produce(world.notes, 0, *(b"n%d" % number for number in range(60)))
    jobs, notes = [], []
    while len(jobs) + len(notes) < 60:
        for value in values(await opened.next()):
            (notes if value.startswith(b"n") else jobs).append(value)
    assert notes


async def test_a_held_session_ends_with_the_right_on_its_group(world):
    opened = Opened(await world.caller(ANN).stream(methods.HOLD_SESSION, to=ADDRESS))
    await opened.stream.send(leader.HoldSessionRequest(group_id=GROUP, member_id="ann"))
    assert (await opened.next()).error_code == 0
    await world.produce(world.jobs, 0, b"held")
    assert values(await world.call(ANN, methods.SHARE_FETCH, fetch(world))) == [b"held"]
    await world.forbid(ANN, ON_TOPIC, READ)
    await opened.silent()  # the group's right is what holds it
    await world.forbid(ANN, ON_GROUP)
    assert (await opened.next()).error_code == 30
    assert await opened.next() is None
    assert await someone_else_gets(world, b"held") == [2]


async def test_acknowledgements_need_the_rights_of_the_fetch(world):
    opened = await Opened.consume(world)
    await world.produce(world.jobs, 0, b"held")
    assert values(await opened.next()) == [b"held"]
    await world.forbid(ANN, ON_TOPIC, READ)
    assert [part.error_code for part in entries(await opened.next())] == [29]
    late = leader.ConsumeRequest()
    acknowledge = late.acknowledgements.add(acknowledge_id=5)
    part = acknowledge.topics.add(topic_id=world.jobs).partitions.add(partition=0)
    part.acknowledgement_batches.add(first_offset=0, last_offset=0, acknowledge_types=[1])
    await opened.stream.send(late)
    [result] = (await opened.next()).acknowledged
    assert [each.error_code for topic in result.topics for each in topic.partitions] == [29]
    assert await someone_else_gets(world, b"held") == [2]


# ---- heartbeats --------------------------------------------------------------------------------


async def beating(world, member="ann", *topics):
    """Return a heartbeat stream that has its assignment, and that assignment's epoch."""
    opened = Opened(
        await world.caller(ANN).stream(methods.SHARE_GROUP_HEARTBEAT_STREAM, to=ADDRESS)
    )
    await opened.stream.send(heartbeat(GROUP, member, *topics))
    while not (answer := await opened.next()).assignment.topic_partitions:
        assert answer.error_code == 0, answer
    return opened


async def grow(world, topic, total):
    request = admin.CreatePartitionsRequest()
    request.topics.add(name=topic, total=total)
    [grown] = (await world.call(ROOT, methods.CREATE_PARTITIONS, request)).topics
    assert grown.error_code == 0, grown


async def test_a_heartbeat_stream_ends_with_the_right_on_its_group(world):
    opened = await beating(world, "ann", TOPIC)
    await world.forbid(ANN, ON_GROUP)
    last = await opened.next()
    assert (last.error_code, last.HasField("assignment")) == (30, False)
    assert await opened.next() is None


async def test_no_assignment_is_pushed_of_a_topic_that_may_not_be_described_any_more(world):
    opened = await beating(world, "ann", TOPIC)
    await world.forbid(ANN, ON_TOPIC)
    await opened.silent()  # it was told before; nothing new is
    await grow(world, TOPIC, 3)
    last = await opened.next()
    assert (last.error_code, last.HasField("assignment")) == (29, False)
    assert await opened.next() is None


async def test_an_assignment_is_pushed_while_the_rights_are_there(world):
    opened = await beating(world, "ann", TOPIC)
    await world.allow("User:bob", WRITE, ON_TOPIC, OTHER)  # a change that concerns others
    await grow(world, TOPIC, 2)
    [topic] = (await opened.next()).assignment.topic_partitions
    assert list(topic.partitions) == [0, 1]


async def test_an_answer_to_a_unary_heartbeat_tells_no_topic_that_may_not_be_described(world):
    joined = await world.join(ANN, GROUP, "bea", TOPIC)
    await world.forbid(ANN, ON_TOPIC)
    await grow(world, TOPIC, 4)
    request = heartbeat(GROUP, "bea", epoch=joined.member_epoch)
    async with asyncio.timeout(WAIT_S):
        while not (
            answer := await world.call(ANN, methods.SHARE_GROUP_HEARTBEAT, request)
        ).error_code:
            assert not answer.assignment.topic_partitions
    assert (answer.error_code, answer.HasField("assignment")) == (29, False)


async def describing(world, *names):
    """Return the task of a look at offsets that waits for the share coordinator."""
    await world.produce(world.jobs, 0, b"one")
    assert values(await world.call(ANN, methods.SHARE_FETCH, fetch(world))) == [b"one"]
    request = groups.DescribeShareGroupOffsetsRequest()
    asked = request.groups.add(group_id=GROUP)
    for name in names:
        asked.topics.topics.add(topic_name=name, partitions=[0])
    world.states_wait.clear()
    world.states_asked.clear()
    task = asyncio.create_task(world.call(ANN, methods.DESCRIBE_SHARE_GROUP_OFFSETS, request))
    await asyncio.wait_for(world.states_asked.wait(), WAIT_S)
    return task


async def test_offsets_are_not_told_of_a_group_whose_right_went_while_they_were_asked_for(world):
    waiting = await describing(world)
    await world.forbid(ANN, ON_GROUP)
    world.states_wait.set()
    [told] = (await waiting).groups
    assert (told.error_code, list(told.topics)) == (30, [])


async def test_offsets_are_not_told_of_a_topic_whose_right_went_while_they_were_asked_for(world):
    waiting = await describing(world, TOPIC)
    await world.forbid(ANN, ON_TOPIC, READ)
    world.states_wait.set()
    [told] = (await waiting).groups
    [topic] = told.topics
    assert (topic.topic_name, topic.topic_id) == (TOPIC, bytes(16))
    assert [(row.error_code, row.start_offset, row.lag) for row in topic.partitions] == [
        (29, -1, -1)
    ]


async def test_a_topic_whose_right_went_is_left_out_of_all_offsets_of_a_group(world):
    waiting = await describing(world)
    await world.forbid(ANN, ON_TOPIC, READ)
    world.states_wait.set()
    [told] = (await waiting).groups
    assert (told.error_code, [topic.topic_name for topic in told.topics]) == (0, [OTHER])
