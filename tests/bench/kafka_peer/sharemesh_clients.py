"""Sharemesh's Python client at its defaults: ``BOOTSTRAP COMMAND …``; prints one JSON object."""

import contextlib
import json
import multiprocessing
import os
import queue
import statistics
import struct
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier, Event
from typing import Any

from sharemesh.client import ShareConsumer, connect

PATIENCE_S = 60
WARM_UP_S = 3


def produce(bootstrap: str, topic: str, size: int, records: int) -> dict[str, object]:
    """``send`` in a loop, then ``flush``."""
    value = os.urandom(size)
    with connect(bootstrap).producer() as producer:
        began, busy = time.perf_counter(), time.process_time()
        for _ in range(records):
            producer.send(topic, value)
        producer.flush()
        seconds = time.perf_counter() - began
        busy = time.process_time() - busy
    return {"rate": records / seconds, "client_us": busy / records * 1e6}


def _member(
    bootstrap: str,
    topic: str,
    group: str,
    found: "multiprocessing.Queue[Any]",
    started: Barrier,
    stop: Event,
    *,
    bulk: bool,
) -> None:
    with connect(bootstrap).share_consumer(group) as consumer:
        started.wait(PATIENCE_S)
        consumer.subscribe([topic])
        while not stop.is_set():
            if bulk:
                count = sum(len(columns.values) for columns in consumer.poll_batches(200))
            else:
                count = len(consumer.poll(200))
            if count:
                found.put((count, time.time()))


def consume_in_bulk(bootstrap: str, topic: str, members: int, records: int) -> dict[str, object]:
    """``poll_batches`` in a loop, values looked at; else as ``consume``."""
    return consume(bootstrap, topic, members, records, bulk=True)


def consume(
    bootstrap: str,
    topic: str,
    members: int,
    records: int,
    *,
    bulk: bool = False,
    group: str = "",
) -> dict[str, object]:
    """``poll`` in a loop with implicit acknowledgement; each member is a process.

    Nobody joins before all processes have started: Java's members have a warm machine, too.
    The group is one that is set up already, or a new one that begins with the first record.
    """
    if not group:
        group = f"g{time.time_ns()}"
        with connect(bootstrap).admin() as admin:
            admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    context = multiprocessing.get_context("spawn")
    found: multiprocessing.Queue[Any] = context.Queue()
    started, stop = context.Barrier(members), context.Event()
    arguments = (bootstrap, topic, group, found, started, stop)
    processes = [
        context.Process(target=_member, args=arguments, kwargs={"bulk": bulk})
        for _ in range(members)
    ]
    for process in processes:
        process.start()
    count, first, last = 0, 0.0, 0.0
    try:
        while count < records:
            some, last = found.get(timeout=PATIENCE_S)
            first = first or last
            count += some
    finally:
        stop.set()
        with _drained(found):
            for process in processes:
                process.join(PATIENCE_S)
    return {"rate": count / (last - first)}


@contextlib.contextmanager
def _drained(found: "multiprocessing.Queue[Any]") -> Iterator[None]:
    """Empty a queue meanwhile, so that the processes that fill it can end."""
    over = threading.Event()

    def drain() -> None:
        while not over.is_set():
            with contextlib.suppress(queue.Empty):
                found.get(timeout=0.1)

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def latency(bootstrap: str, topic: str, rate: int, seconds: int) -> dict[str, object]:
    """Records at a steady rate, acknowledged explicitly poll by poll: p50 and p99 in ms."""
    group = f"g{time.time_ns()}"
    cluster = connect(bootstrap)
    with cluster.admin() as admin:
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    delivered: list[float] = []
    acknowledged: list[float] = []
    stop = threading.Event()

    def work() -> None:
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
        }
        with ShareConsumer(config) as consumer:
            consumer.subscribe([topic])
            while not stop.is_set():
                records = consumer.poll(100)
                now = time.perf_counter()
                for record in records:
                    delivered.append(now - struct.unpack_from(">d", record.value)[0])
                    consumer.acknowledge(record)
                if records:
                    asked = time.perf_counter()
                    consumer.commit_sync()
                    acknowledged.append(time.perf_counter() - asked)

    worker = threading.Thread(target=work)
    worker.start()
    with cluster.producer() as producer:

        def send(seconds: int) -> None:
            began = time.perf_counter()
            for number in range(rate * seconds):
                left = began + number / rate - time.perf_counter()
                if left > 0:
                    time.sleep(left)
                producer.send(topic, struct.pack(">d92x", time.perf_counter()))

        send(WARM_UP_S)
        delivered.clear()
        acknowledged.clear()
        send(seconds)
        time.sleep(1)  # what is under way arrives
    stop.set()
    worker.join()
    return {"delivered": _percentiles(delivered), "acknowledged": _percentiles(acknowledged)}


def _percentiles(seconds: list[float]) -> list[float]:
    cuts = statistics.quantiles(seconds, n=100)
    return [cuts[49] * 1_000, cuts[98] * 1_000]


def main() -> None:
    """Measure and print one JSON object."""
    bootstrap, command, topic, *numbers = sys.argv[1:]
    measure = {
        "produce": produce,
        "consume": consume,
        "consume-in-bulk": consume_in_bulk,
        "latency": latency,
    }[command]
    print(json.dumps(measure(bootstrap, topic, *map(int, numbers))))


if __name__ == "__main__":
    main()
