"""Share groups through the listener: heartbeats, fetches and acknowledgements, frame by frame."""

import asyncio

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import error_code, milliseconds
from sharemesh.telemetry import names
from tests.kafka_listener.asked import (
    ACCEPT,
    HEARTBEAT,
    REJECT,
    RELEASE,
    RENEW,
    SHARE_ACKNOWLEDGE,
    ShareClient,
    ack,
    given,
    orders,
    produce,
)
from tests.kafka_listener.world import NO_ERROR, ListeningMesh


async def test_the_first_answer_to_a_member_has_its_assignment():
    """KLS-15."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh, 2)
        member = ShareClient(client, topic_id)
        told = await member.join()
        assert (told.error_code, told.member_id) == (NO_ERROR, "m")
        assert told.heartbeat_interval == milliseconds(5_000)
        [assigned] = told.assignment.topic_partitions
        assert (assigned.topic_id, sorted(assigned.partitions)) == (topic_id, [0, 1])
        again = await client.ask(
            HEARTBEAT,
            1,
            **member.who,
            member_epoch=told.member_epoch,
            rack_id=None,
            subscribed_topic_names=None,
        )
        assert (again.error_code, again.assignment) == (NO_ERROR, None)
        left = await client.ask(
            HEARTBEAT, 1, **member.who, member_epoch=-1, rack_id=None, subscribed_topic_names=()
        )
        assert (left.error_code, left.member_epoch) == (NO_ERROR, -1)


async def test_a_member_of_an_unknown_epoch_is_fenced():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        member = ShareClient(client, await orders(mesh))
        await member.join()
        told = await client.ask(
            HEARTBEAT, 1, **member.who, member_epoch=99, rack_id=None, subscribed_topic_names=None
        )
        assert told.error_code == error_code(ErrorCode.FENCED_MEMBER_EPOCH)


@pytest.mark.parametrize("version", [1, 2])
async def test_records_are_fetched_and_acknowledged_with_the_next_fetch(version):
    """KLS-14: the first answer lists every partition, later ones what is new."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id, version=version)
        await member.join()
        empty = await member.fetch(add=(0,), wait_ms=0)
        assert empty.acquisition_lock_timeout == milliseconds(30_000)
        assert [each.partition_index for each in empty.responses[0].partitions] == [0]
        assert given(empty) == ([], [])
        await produce(client, topic_id, b"a", b"b")
        assert given(await member.fetch()) == ([b"a", b"b"], [1])
        told = await member.fetch(batches=[ack(0, 1, ACCEPT)], wait_ms=0)
        [part] = told.responses[0].partitions
        assert (part.error_code, part.acknowledge_error_code) == (NO_ERROR, 0)
        assert not (await member.fetch(wait_ms=0)).responses


async def test_accepted_released_and_rejected_records_of_one_batch():
    """KLS-14: one type for each offset."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await produce(client, topic_id, b"a", b"b", b"c")
        assert given(await member.fetch(add=(0,)))[0] == [b"a", b"b", b"c"]
        told = await member.acknowledge(ack(0, 2, ACCEPT, RELEASE, REJECT))
        assert told.error_code == NO_ERROR
        [part] = told.responses[0].partitions
        assert part.error_code == NO_ERROR
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (0, 0)
        assert given(await member.fetch()) == ([b"b"], [2])


async def test_a_renewed_record_stays_with_its_member():
    """KLS-14: a fetch that renews brings nothing."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await produce(client, topic_id, b"a")
        assert given(await member.fetch(add=(0,)))[0] == [b"a"]
        for seconds in (20, 20):
            await mesh.mesh.clock.advance(seconds)
            renewed = await member.fetch(batches=[ack(0, 0, RENEW)], renew=True)
            [part] = renewed.responses[0].partitions
            assert (part.acknowledge_error_code, given(renewed)) == (0, ([], []))
        renewed = await member.acknowledge(ack(0, 0, RENEW), renew=True)
        assert renewed.responses[0].partitions[0].error_code == NO_ERROR
        done = await member.acknowledge(ack(0, 0, ACCEPT))
        assert done.responses[0].partitions[0].error_code == NO_ERROR


async def test_an_acknowledgement_of_a_lost_lock_is_refused():
    """KLS-14."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await produce(client, topic_id, b"a")
        await member.fetch(add=(0,))
        await mesh.mesh.clock.advance(31)
        told = await member.acknowledge(ack(0, 0, ACCEPT))
        [part] = told.responses[0].partitions
        assert part.error_code == error_code(ErrorCode.INVALID_RECORD_STATE)


async def test_sessions_have_epochs():
    """KLS-14: 122 and 123 are what clients open a session anew for."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        member = ShareClient(client, await orders(mesh))
        await member.join()
        missing = await member.fetch(epoch=5)
        assert missing.error_code == error_code(ErrorCode.SHARE_SESSION_NOT_FOUND)
        await member.fetch(add=(0,), wait_ms=0)
        late = await member.fetch(epoch=5)
        assert late.error_code == error_code(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        assert not late.responses


async def test_a_lost_connection_ends_its_session_and_frees_the_records():
    """KLS-13, SES-12: long before their locks expire."""
    async with ListeningMesh() as mesh, mesh.connect() as other:
        topic_id = await orders(mesh)
        async with mesh.connect() as client:
            member = ShareClient(client, topic_id, "lost")
            await member.join()
            await produce(client, topic_id, b"a")
            assert given(await member.fetch(add=(0,)))[0] == [b"a"]
            [connection] = [each for each in mesh.listener._open if len(each.sessions)]
        second = ShareClient(other, topic_id, "second")
        await second.join()
        assert given(await second.fetch(add=(0,), wait_ms=5_000))[0] == [b"a"]
        await mesh.until(lambda: not len(connection.sessions))


async def test_a_session_that_its_member_ends_is_held_no_more():
    """KLS-13: what it held comes back uncounted."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await produce(client, topic_id, b"a")
        await member.fetch(add=(0,))
        [connection] = mesh.listener._open
        assert len(connection.sessions) == 1
        told = await member.acknowledge(epoch=-1)
        assert told.error_code == NO_ERROR
        await mesh.until(lambda: not len(connection.sessions))
        again = ShareClient(client, topic_id)
        assert given(await again.fetch(add=(0,)))[0] == [b"a"]
        assert len(connection.sessions) == 1


async def test_a_connection_has_a_bounded_number_of_sessions():
    """KLS-13."""
    async with ListeningMesh(max_held_sessions=2) as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        answers = []
        for name in ("a", "b", "c"):
            member = ShareClient(client, topic_id, name)
            await member.join()
            answers.append(await member.fetch(add=(0,), wait_ms=0))
        assert [int(each.error_code) for each in answers] == [0, 0, 133]
        assert "a connection for each consumer" in answers[-1].error_message


async def test_a_session_too_many_is_refused_after_the_wait_of_its_fetch():
    """KLS-13, REQ-4: its client opens another one at once."""
    async with ListeningMesh(max_held_sessions=1) as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        await ShareClient(client, topic_id, "a").fetch(add=(0,), wait_ms=0)
        late = ShareClient(client, topic_id, "b").fetch(add=(0,), wait_ms=5_000)
        refused = asyncio.ensure_future(late)
        fetches = ("ShareFetch", "2")
        await mesh.until(lambda: mesh.counted(names.KAFKA_LISTENER_REQUESTS)[fetches] == 2)
        await mesh.mesh.clock.advance(4)
        assert not refused.done()
        await mesh.mesh.clock.advance(2)
        assert int((await refused).error_code) == 133


async def test_bnd_16_a_principal_whose_connections_hold_too_many_members_is_refused(monkeypatch):
    monkeypatch.setattr("sharemesh.share_leader.streaming.consume._HOLDS_OF_A_SESSION", 0)
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        answer = await ShareClient(client, topic_id).fetch(add=(0,), wait_ms=0)
        assert int(answer.error_code) == 133
        assert "HoldSession streams" in answer.error_message
        [connection] = mesh.listener._open
        assert not len(connection.sessions)


async def test_a_fetch_waits_for_records_that_come():
    async with ListeningMesh() as mesh, mesh.connect() as client, mesh.connect() as producer:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await member.fetch(add=(0,), wait_ms=0)
        waiting = asyncio.ensure_future(member.fetch(wait_ms=20_000))
        await asyncio.sleep(0.01)
        await produce(producer, topic_id, b"late")
        assert given(await waiting)[0] == [b"late"]


async def test_a_session_that_is_opened_right_behind_the_end_of_the_last_one_is_held():
    """KLS-13: the end of the old one does not take the new one with it."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        member = ShareClient(client, topic_id)
        await member.join()
        await produce(client, topic_id, b"a")
        await member.fetch(add=(0,))
        [connection] = mesh.listener._open
        end = {"share_session_epoch": -1, "is_renew_ack": False, "topics": []}
        ended = client.send(SHARE_ACKNOWLEDGE, 2, **member.who, **end)
        again = ShareClient(_Behind(client, (SHARE_ACKNOWLEDGE, 2, ended)), topic_id)
        assert given(await again.fetch(add=(0,)))[0] == [b"a"]
        told = await again.fetch(batches=(ack(0, 0, ACCEPT),), wait_ms=0)
        assert told.error_code == NO_ERROR
        assert told.responses[0].partitions[0].acknowledge_error_code == NO_ERROR
        assert len(connection.sessions) == 1


class _Behind:
    """A connection whose first request goes out before the answer of another one is read."""

    def __init__(self, client, before):
        self._client = client
        self._before = before

    async def ask(self, key, version, /, **content):
        correlation = self._client.send(key, version, **content)
        before, self._before = self._before, None
        if before is not None:
            await self._client.answer(*before)
        return await self._client.answer(key, version, correlation)
