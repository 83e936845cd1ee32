"""Produce and consume with asyncio: a hundred handlers at a time, no threads.

python examples/async_worker_pool.py 127.0.0.1:9400 orders billing [RECORDS]
"""

import asyncio
import sys

from sharemesh.client import AcknowledgeType, ConsumerRecord, RunOptions, connect


async def call_another_service(record: ConsumerRecord) -> None:
    """Stand for what the work is."""
    await asyncio.sleep(len(record.value) / 1_000)


async def main(bootstrap: str, topic: str, group: str, records: int) -> None:
    """Produce ``records`` and handle them."""
    cluster = connect(bootstrap)
    admin = cluster.async_admin()
    await admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    await admin.close()
    async with cluster.async_producer() as producer:
        for number in range(records):
            await producer.send(topic, f'{{"id": {number}}}', key=str(number))
        await producer.flush()
    done = 0
    async with cluster.async_share_consumer(group) as consumer:
        await consumer.subscribe([topic])

        async def handler(record: ConsumerRecord) -> AcknowledgeType:
            nonlocal done
            await call_another_service(record)
            done += 1
            if done >= records:
                consumer.stop()
            return AcknowledgeType.ACCEPT

        options = RunOptions(on_failure=print)
        await consumer.run(handler, concurrency=100, options=options)
    print(done, "handled")


if __name__ == "__main__":
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 10
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], count))
