"""Each record is acknowledged by what happened to it; a failed one is tried again, then given up.

python examples/explicit_with_retry.py 127.0.0.1:9400 orders billing [RECORDS]
"""

import json
import sys

from sharemesh.client import AcknowledgeType, ConsumerRecord, connect

TRIES = 3


def work(record: ConsumerRecord) -> None:
    """Handle a record; raises ValueError when it cannot be handled."""
    if "id" not in json.loads(record.value):
        raise ValueError("no id")


def outcome(record: ConsumerRecord) -> AcknowledgeType:
    """Work on a record and say what became of it."""
    try:
        work(record)
    except ValueError as error:
        print(record, "failed:", error)
        last = record.delivery_count >= TRIES
        return AcknowledgeType.REJECT if last else AcknowledgeType.RELEASE
    return AcknowledgeType.ACCEPT


def main(bootstrap: str, topic: str, group: str, records: int) -> None:
    """Handle until ``records`` are accepted or rejected."""
    cluster = connect(bootstrap)
    with cluster.admin() as admin:
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    finished = 0
    with cluster.share_consumer(group, [topic], share_acknowledgement_mode="explicit") as consumer:
        while finished < records:
            for record in consumer.poll(1_000):
                kind = outcome(record)
                consumer.acknowledge(record, kind)
                finished += kind is not AcknowledgeType.RELEASE
            for where, error in consumer.commit_sync().items():
                if error is not None:
                    print(where, "will come again:", error)
    print(finished, "finished")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 10)
