"""A worker: each record to a handler, with retries; runs until Ctrl-C.

python examples/worker.py 127.0.0.1:9400 orders billing [RECORDS]
"""

import itertools
import sys

from sharemesh.client import ConsumerRecord, RunOptions, connect


def main(bootstrap: str, topic: str, group: str, records: int | None) -> None:
    """Handle records, and stop after so many if that is given."""
    cluster = connect(bootstrap)
    with cluster.admin() as admin:  # a new group starts at the oldest record
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    done = itertools.count(1)  # handlers work in several threads
    with cluster.share_consumer(group, [topic]) as consumer:

        def handle(record: ConsumerRecord) -> None:
            """Return: accepted. Raise: logged, tried again later. Locks are renewed meanwhile."""
            sys.stdout.write(f"{record.partition} {record.offset} {record.value!r}\n")
            if next(done) == records:
                consumer.stop()

        consumer.run(handle, concurrency=4, options=RunOptions(retry_backoff_max_ms=60_000))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else None)
