"""A worker that may be stopped at any time: SIGTERM ends it when its handlers are done.

What it had got and not begun goes back to the group without counting as delivered.

python examples/graceful_worker.py 127.0.0.1:9400 orders billing
"""

import sys
import time

from sharemesh.client import ConsumerRecord, connect


def handle(record: ConsumerRecord) -> None:
    """Take a while."""
    time.sleep(0.2)
    line = f"done {record.topic_id_partition}@{record.offset}\n"
    print(line, end="", flush=True)  # in one write, as two handlers work at a time


def main(bootstrap: str, topic: str, group: str) -> None:
    """Work until SIGTERM, or Ctrl-C."""
    cluster = connect(bootstrap)
    with cluster.admin() as admin:
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    with cluster.share_consumer(group, [topic]) as consumer:
        consumer.run(handle, concurrency=2)
    print("stopped", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])
