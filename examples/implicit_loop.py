"""The simplest loop: the next poll accepts what this one returned, if their locks last so long.

python examples/implicit_loop.py 127.0.0.1:9400 orders billing [RECORDS]
"""

import sys

from sharemesh.client import connect


def main(bootstrap: str, topic: str, group: str, records: int) -> None:
    """Print ``records`` values."""
    cluster = connect(bootstrap)
    with cluster.admin() as admin:  # a new group starts at the oldest record
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    seen = 0
    with cluster.share_consumer(group, [topic]) as consumer:
        while seen < records:
            for record in consumer.poll(1_000):
                print(record.partition, record.offset, record.value)
                seen += 1
        consumer.commit_sync()  # the last poll's records: close releases what is not accepted


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 10)
