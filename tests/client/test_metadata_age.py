"""``metadata.max.age.ms``: metadata is read anew although nothing went wrong."""

from tests.client.mini_cluster import MiniCluster, Partition
from tests.client.test_async_share_consumer import consumer_of, until
from tests.client.test_producer import producer_of

AGE_MS = 50


async def test_a_producer_learns_of_added_partitions():
    cluster = MiniCluster(partitions=1)
    async with producer_of(cluster, metadata_max_age_ms=AGE_MS) as producer:
        await producer.send_and_wait("t", b"x")
        cluster.partitions[1] = Partition("b")

        async def knows_two() -> bool:
            await producer.send_and_wait("t", b"y")
            return await producer.partitions_for("t") == 2

        for _ in range(200):
            if await knows_two():
                break
        assert (await producer.send_and_wait("t", b"z", partition=1)).partition == 1


async def test_a_consumer_reads_metadata_of_what_it_consumes_again():
    cluster = MiniCluster()
    async with await consumer_of(cluster, metadata_max_age_ms=AGE_MS) as consumer:
        cluster.append(b"x")
        await consumer.poll(5_000)
        reads = cluster.metadata_reads
        await until(lambda: cluster.metadata_reads >= reads + 2)


async def test_a_fresh_one_is_not_read_again():
    cluster = MiniCluster()
    async with await consumer_of(cluster) as consumer:
        cluster.append(b"x")
        await consumer.poll(5_000)
        reads = cluster.metadata_reads
        await consumer.poll(300)
        assert cluster.metadata_reads == reads
