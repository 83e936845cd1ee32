"""Sessions, leaders and membership as a consumer meets them (spec CL-5, CL-18 to CL-29)."""

import asyncio

import pytest

from sharemesh.client import AcknowledgeType
from sharemesh.client.consumer.consume_stream import LeaderSession
from sharemesh.client.errors import (
    GroupAuthorizationFailedError,
    InvalidRecordStateError,
    NetworkError,
    NotLeaderOrFollowerError,
    error_for,
)
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, explicit_of, until


async def one_record(cluster: MiniCluster):
    """Return an explicit consumer that holds the one record of the cluster."""
    cluster.append(b"x")
    consumer = await explicit_of(cluster)
    (record,) = await consumer.poll(5_000)
    return consumer, record


@pytest.mark.parametrize("code", [122, 123, 133])
async def test_a_session_that_is_refused_is_opened_again_silently(code):
    cluster = MiniCluster()
    cluster.session_errors = [code, code]
    cluster.append(b"x")
    async with await consumer_of(cluster) as consumer:
        assert [r.value for r in await consumer.poll(5_000)] == [b"x"]
    assert len(cluster.sessions) == 1


async def test_a_session_that_may_not_be_opened_is_told_by_poll():
    cluster = MiniCluster()
    cluster.session_errors = [30] * 50
    async with await consumer_of(cluster) as consumer:
        with pytest.raises(GroupAuthorizationFailedError):
            await consumer.poll(5_000)


@pytest.mark.parametrize("code", [24, 30, 35, 42])
async def test_refusals_of_the_membership_are_told_by_poll(code):
    cluster = MiniCluster()
    cluster.heartbeat_errors = [code]
    async with await consumer_of(cluster) as consumer:
        with pytest.raises(type(error_for(code))):
            await consumer.poll(5_000)


async def test_acknowledgements_of_a_lost_connection_fail_as_a_network_error():
    cluster = MiniCluster()
    consumer, record = await one_record(cluster)
    cluster.stall_acknowledge = True
    consumer.acknowledge(record)
    committing = asyncio.ensure_future(consumer.commit_sync(5_000))
    await asyncio.sleep(0.05)
    await cluster.network.disconnect("a:1")
    (error,) = (await committing).values()
    assert isinstance(error, NetworkError)
    cluster.stall_acknowledge = False
    (again,) = await consumer.poll(5_000)
    assert again.delivery_count == 2
    consumer.acknowledge(again)
    await consumer.close()


async def test_a_session_whose_writer_breaks_down_ends_with_that_failure(monkeypatch, caplog):
    cluster = MiniCluster()
    consumer, record = await one_record(cluster)
    real = LeaderSession._put_acknowledgements

    def put(session, request):
        monkeypatch.setattr(LeaderSession, "_put_acknowledgements", real)
        raise ValueError("cannot be encoded")

    monkeypatch.setattr(LeaderSession, "_put_acknowledgements", put)
    consumer.acknowledge(record)
    (error,) = (await consumer.commit_sync(5_000)).values()
    assert isinstance(error, NetworkError)
    assert "the session broke down: ValueError('cannot be encoded')" in str(error)
    assert "the session with leader a:1 broke down" in caplog.messages
    (again,) = await consumer.poll(5_000)
    assert again.delivery_count == 2
    consumer.acknowledge(again)
    assert list((await consumer.commit_sync(5_000)).values()) == [None]
    await consumer.close()


async def test_acknowledgements_are_not_redirected_to_another_leader():
    cluster = MiniCluster()
    consumer, record = await one_record(cluster)
    cluster.move(0, "b")
    consumer.acknowledge(record)
    (error,) = (await consumer.commit_sync(5_000)).values()
    assert isinstance(error, NotLeaderOrFollowerError)
    assert cluster.acknowledged == []
    (again,) = await consumer.poll(5_000)
    assert again.leader_epoch == 2
    consumer.acknowledge(again)
    await consumer.close()


async def test_an_acknowledgement_without_an_answer_is_an_invalid_record_state():
    cluster = MiniCluster()
    consumer, record = await one_record(cluster)
    cluster.omit_answers = True
    consumer.acknowledge(record)
    (error,) = (await consumer.commit_sync(5_000)).values()
    assert isinstance(error, InvalidRecordStateError)
    await consumer.close()


async def test_partitions_of_several_leaders_have_a_session_each():
    cluster = MiniCluster(partitions=2)
    cluster.partitions[1].leader = "b"
    cluster.append(b"x", partition=0)
    cluster.append(b"y", partition=1)
    async with await consumer_of(cluster) as consumer:
        got = set()
        async with asyncio.timeout(5):
            while len(got) < 2:
                got |= {(r.partition, r.value) for r in await consumer.poll(500)}
        assert got == {(0, b"x"), (1, b"y")}
        assert sorted(cluster.sessions) == [("a", consumer.member_id), ("b", consumer.member_id)]


async def test_what_was_sent_ahead_of_a_lost_partition_is_given_back():
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(30)], batched=False)
    async with await consumer_of(cluster, max_poll_records=10) as consumer:
        seen = {r.offset for r in await consumer.poll(5_000)}
        await until(lambda: cluster.states().count("acquired") > len(seen))
        cluster.assigned = []
        await until(lambda: cluster.states().count("acquired") == len(seen))
        assert await consumer.poll(300) == []


async def test_unsubscribe_sends_what_was_acknowledged_first():
    cluster = MiniCluster()
    consumer, record = await one_record(cluster)
    consumer.acknowledge(record, AcknowledgeType.REJECT)
    await consumer.unsubscribe()
    assert cluster.states() == ["rejected"]
    assert cluster.members == {}
    await consumer.close()


async def test_a_wakeup_does_not_disturb_close():
    cluster = MiniCluster()
    consumer, record = await one_record(cluster)
    consumer.acknowledge(record)
    consumer.wakeup()
    await consumer.close()
    assert cluster.states() == ["accepted"]
    assert cluster.members == {}
