"""A million later records of a partition past one that is held and renewed, as a user sees it.

``sharemesh up`` as it ships, a group whose limit counts locks, the public client at its defaults.
Rounds with the held record and without it alternate over the same partition.
"""

import contextlib
import itertools
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from sharemesh.client import AcknowledgeType, connect
from tests.bench.figures import Figure, alternate
from tests.bench.kafka_peer.sharemesh_clients import consume, produce
from tests.cli.local_up import local_up

ROOT = Path(__file__).parents[2]
RECORDS = int(os.environ.get("HELD_RECORDS", "1000000"))
SIZE = 100
MEMBERS = 2
TOPIC = "held"
RENEW_EVERY_S = 5.0
FIRST_S = 30
ONE_RECORD = {
    "max.poll.records": 1,
    "prefetch.records": 0,
    "share.acquire.mode": "record_limit",
    "share.acknowledgement.mode": "explicit",
}
SETTINGS = {"share.auto.offset.reset": "earliest", "share.in.flight.limit.type": "locks"}


@contextlib.contextmanager
def first_record(bootstrap: str, group: str, *, is_held: bool) -> Iterator[None]:
    """Take the first record of the partition; renew it meanwhile, or accept it at once."""
    with connect(bootstrap).share_consumer(group, **ONE_RECORD) as holder:
        holder.subscribe([TOPIC])
        [record] = next(found for _ in range(FIRST_S) if (found := holder.poll(1_000)))
        assert record.offset == 0, f"offset {record.offset} came first"
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(RENEW_EVERY_S):
                holder.acknowledge(record, AcknowledgeType.RENEW)
                holder.commit_sync()

        if not is_held:
            holder.acknowledge(record, AcknowledgeType.ACCEPT)
            holder.commit_sync()
        renewing = threading.Thread(target=renew)
        if is_held:
            renewing.start()
        try:
            yield
        finally:
            ended.set()
            if is_held:
                renewing.join()
                holder.acknowledge(record, AcknowledgeType.ACCEPT)
                failed = {where: why for where, why in holder.commit_sync().items() if why}
                assert not failed, f"the lock did not last: {failed}"


def past_a_held_record(name: str, bootstrap: str, records: int) -> Figure:
    """Return the rate of records behind a held one, over the rate where none is held."""
    numbers = itertools.count()

    def rate(*, is_held: bool) -> float:
        group = f"past-{next(numbers)}"
        with connect(bootstrap).admin() as admin:
            admin.alter_group_configs(group, SETTINGS)
        with first_record(bootstrap, group, is_held=is_held):
            found = consume(bootstrap, TOPIC, MEMBERS, records, group=group)
        return float(str(found["rate"]))

    medians = alternate(lambda: rate(is_held=False), lambda: rate(is_held=True))
    return Figure(name, medians.measured, "records/s", medians.baseline, medians.ratio, floor=0.95)


def held_record_of_a_cluster() -> Figure:
    """Return the figure of the embedded engine."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=ROOT / "build") as directory,
        local_up(Path(directory) / "up") as up,
        connect(up.bootstrap).admin() as admin,
    ):
        admin.create_topic(TOPIC, 1)
        produce(up.bootstrap, TOPIC, SIZE, RECORDS + 1)
        return past_a_held_record("delivery.held_record", up.bootstrap, RECORDS)
