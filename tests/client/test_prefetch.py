"""``prefetch.records``: how far ahead of poll leaders may send."""

from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, explicit_of, until


def held(cluster: MiniCluster) -> int:
    return cluster.states().count("acquired")


async def test_a_fast_application_is_sent_more_ahead():
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(400)], batched=False)
    async with await consumer_of(cluster, max_poll_records=10) as consumer:
        for _ in range(5):
            assert await consumer.poll(5_000)
        await until(lambda: held(cluster) > 20)  # 10 handed out, 10 ahead, and more
        assert held(cluster) <= 10 + 4 * 10


async def test_nothing_is_sent_ahead_in_explicit_mode():
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(40)], batched=False)
    async with await explicit_of(cluster, max_poll_records=10) as consumer:
        for record in await consumer.poll(5_000):
            consumer.acknowledge(record)
        await consumer.commit_sync()
        assert held(cluster) == 0


async def test_a_fixed_number_is_kept():
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(400)], batched=False)
    async with await consumer_of(cluster, max_poll_records=10, prefetch_records=3) as consumer:
        for _ in range(5):
            assert await consumer.poll(5_000)
        assert held(cluster) <= 10 + 10
