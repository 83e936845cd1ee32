"""Long work on threads: locks are renewed while handlers run, each record is acknowledged alone.

python examples/renewing_worker.py 127.0.0.1:9400 orders billing [RECORDS]
"""

import sys
import threading
import time

from sharemesh.client import ConsumerRecord, RunOptions, connect


def main(bootstrap: str, topic: str, group: str, records: int) -> None:
    """Handle ``records`` on four threads, then stop gracefully."""
    cluster = connect(bootstrap)
    with cluster.admin() as admin:
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    done = 0
    lock = threading.Lock()
    with cluster.share_consumer(group, [topic]) as consumer:

        def handler(record: ConsumerRecord) -> None:
            nonlocal done
            time.sleep(len(record.value) / 200)  # longer than the lock is fine: it is renewed
            with lock:
                done += 1
                if done >= records:
                    consumer.stop()

        consumer.run(handler, concurrency=4, options=RunOptions(renew_max_ms=600_000))
    print(done, "handled")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 10)
