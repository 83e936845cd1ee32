"""Members of a share group with librdkafka's client; each journals what it sees, then acts.

Arguments: bootstrap servers, group, topic, fields of a whole row, ms to hold what was polled,
directory of the journals, names of the members. They run until SIGTERM.
"""

import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

from tests.history.journal import Journal
from tests.mesh.worker import ranges

POLL_S = 0.5
POLL_RECORDS = 50
COMMIT_S = 20.0
KINDS = {AcknowledgeType.ACCEPT: "accept", AcknowledgeType.REJECT: "reject"}
stopping = threading.Event()


class Member:
    """Polls, holds, acknowledges, until it is told to stop."""

    def __init__(self, about: list[str], name: str) -> None:
        bootstrap, group, topic, fields, hold_ms, journals = about
        self._journal = Journal(Path(journals) / f"{name}.jsonl", name)
        self._commas = int(fields) - 1
        self._hold_s = int(hold_ms) / 1_000
        self._sent: dict[str, dict[int, Any]] = defaultdict(dict)
        self._topic = topic
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": POLL_RECORDS,
        }

    def run(self) -> None:
        """Consume until the process is told to stop."""
        consumer = ShareConsumer(self._settings)
        consumer.set_acknowledgement_commit_callback(self._told)
        consumer.subscribe([self._topic])
        self._journal.write("started")
        turn = 0
        while not stopping.is_set():
            turn += 1
            try:
                self._turn(consumer, turn)
            except KafkaException as error:
                self._journal.write("trouble", text=str(error))
        consumer.close()
        self._journal.write("stopped")
        self._journal.close()

    def _turn(self, consumer: Any, turn: int) -> None:
        messages = []
        for each in consumer.poll(POLL_S):
            if each.error() is not None:
                self._journal.write("trouble", text=str(each.error()))
            else:
                messages.append(each)
        if not messages:
            return
        seen: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for each in messages:
            offset = each.offset()
            seen[_place(each)].append((offset, offset, each.delivery_count()))
        for partition, found in seen.items():
            self._journal.delivered(partition, -1, found)
        stopping.wait(self._hold_s)
        for each in messages:
            whole = each.value().count(b",") == self._commas
            kind = AcknowledgeType.ACCEPT if whole else AcknowledgeType.REJECT
            self._sent[_place(each)][each.offset()] = kind
            consumer.acknowledge(each, kind)
        if turn % 3 == 0:
            consumer.commit_sync(COMMIT_S)
        elif turn % 3 == 1:
            consumer.commit_async()  # else they ride on the next fetch

    def _told(self, offsets: dict[Any, Iterable[int]], error: Exception | None) -> None:
        for where, numbers in offsets.items():
            partition = f"{where.topic}/{where.partition}"
            by_kind: dict[str, list[int]] = defaultdict(list)
            for offset in numbers:
                if offset in self._sent[partition]:
                    by_kind[KINDS[self._sent[partition][offset]]].append(offset)
            for kind, found in by_kind.items():
                self._journal.acknowledged(
                    partition, kind, ranges(found), None if error is None else str(error)
                )


def _place(message: Any) -> str:
    return f"{message.topic()}/{message.partition()}"


def main() -> int:
    """Run all members until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.set())
    threads = [
        threading.Thread(target=Member(sys.argv[1:7], name).run, name=name) for name in sys.argv[7:]
    ]
    for each in threads:
        each.start()
    for each in threads:
        while each.is_alive():
            each.join(POLL_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
