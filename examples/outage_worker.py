"""A worker that outlives an outage of what it needs: nothing is archived meanwhile.

python examples/outage_worker.py 127.0.0.1:9400 orders billing [RECORDS]
"""

import sys
import threading
import time

from sharemesh.client import BreakerPolicy, ConsumerRecord, RetryPolicy, RunOptions, connect

OUTAGE_S = 2.0


class Shop:
    """Stands for a service that is away when the worker starts."""

    def __init__(self) -> None:
        self._back_s = time.monotonic() + OUTAGE_S

    def sell(self, record: ConsumerRecord) -> None:
        """Take an order.

        Raises:
            ConnectionError: The shop is closed.
            ValueError: The order is wrong.
        """
        if time.monotonic() < self._back_s:
            raise ConnectionError("the shop is closed")
        if b'"id"' not in (record.value or b""):
            raise ValueError("no id")


def say(what: str) -> None:
    """Print a line in one write, as handlers work in several threads."""
    print(f"{what}\n", end="", flush=True)


def main(bootstrap: str, topic: str, group: str, records: int | None) -> None:
    """Handle records, and stop after so many if that is given."""
    cluster = connect(bootstrap)
    with cluster.admin() as admin:  # a new group starts at the oldest record
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    shop = Shop()
    lock, done = threading.Lock(), [0]  # handlers work in several threads
    options = RunOptions(
        # An order that is wrong is rejected at once; what the network did is tried again.
        retry=RetryPolicy(retry_on=(OSError, TimeoutError), attempts=5),
        breaker=BreakerPolicy(counts=(OSError,)),
        records_per_second=1_000,
        deadline_ms=10_000,
        on_failure=lambda _, error: say(f"failed: {error}"),
    )
    with cluster.share_consumer(group, [topic]) as consumer:

        def handle(record: ConsumerRecord) -> None:
            """Raise ConnectionError while the shop is closed."""
            try:
                shop.sell(record)
            except ValueError:
                finished("wrong")
                raise
            finished(f"sold, delivery {record.delivery_count}")

        def finished(what: str) -> None:
            with lock:
                done[0] += 1
                say(what)
                if done[0] == records:
                    consumer.stop()

        consumer.run(handle, concurrency=4, options=options)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else None)
