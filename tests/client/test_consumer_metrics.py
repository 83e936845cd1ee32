"""What a consumer counts (spec MET-7)."""

from sharemesh.client import AcknowledgeType
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import explicit_of


async def test_polls_records_acknowledgements_heartbeats_and_assignments_are_counted():
    cluster = MiniCluster()
    cluster.append(b"x", b"y")
    async with await explicit_of(cluster) as consumer:
        assert consumer.client_instance_id() != consumer.member_id
        for record in await consumer.poll(5_000):
            consumer.acknowledge(record)
        await consumer.commit_sync()
        cluster.append(b"z")
        (record,) = await consumer.poll(5_000)
        cluster.refuse_acknowledge.append(121)
        consumer.acknowledge(record, AcknowledgeType.REJECT)
        await consumer.commit_sync()
        counted = dict(consumer.metrics())
    assert counted.pop("bytes-consumed-total") > 0
    assert counted.pop("heartbeat-total") >= 1
    assert counted.pop("fetch-latency-max") >= counted.pop("fetch-latency-avg") >= 0
    assert counted == {
        "fetch-total": 2,
        "poll-total": 2,
        "records-consumed-total": 3,
        "acknowledgements-send-total": 3,
        "acknowledgements-error-total": 1,
        "acknowledgements-lost-lock-total": 1,
        "records-handed-back-total": 0,
        "records-expired-unseen-total": 0,
        "rebalance-total": 1,
        "fetch-throttle-time-avg": 0,
        "fetch-throttle-time-max": 0,
    }


async def test_the_wait_for_records_is_the_fetch_latency():
    cluster = MiniCluster()
    async with await explicit_of(cluster) as consumer:
        assert await consumer.poll(700) == []
        cluster.append(b"x")
        assert len(await consumer.poll(5_000)) == 1
        counted = consumer.metrics()
    assert counted["fetch-total"] == 1
    assert counted["fetch-latency-avg"] == counted["fetch-latency-max"] >= 600
