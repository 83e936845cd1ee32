"""The producers of Kafka's Python clients at their defaults: ``BOOTSTRAP CLIENT TOPIC BYTES N``."""

import asyncio
import json
import os
import sys
import time


def confluent(bootstrap: str, topic: str, value: bytes, records: int) -> float:
    """Return the records per second of confluent-kafka: produce in a loop, then flush."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    began = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    return records / (time.perf_counter() - began)


def aiokafka(bootstrap: str, topic: str, value: bytes, records: int) -> float:
    """Return the records per second of aiokafka: send in a loop, then wait for all."""
    from aiokafka import AIOKafkaProducer

    async def run() -> float:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
        await producer.start()
        began = time.perf_counter()
        await asyncio.gather(*[await producer.send(topic, value) for _ in range(records)])
        seconds = time.perf_counter() - began
        await producer.stop()
        return records / seconds

    return asyncio.run(run())


def main() -> None:
    """Measure and print one JSON object."""
    bootstrap, client, topic, size, records = sys.argv[1:]
    produce = {"confluent": confluent, "aiokafka": aiokafka}[client]
    rate = produce(bootstrap, topic, os.urandom(int(size)), int(records))
    print(json.dumps({"rate": rate}))


if __name__ == "__main__":
    main()
