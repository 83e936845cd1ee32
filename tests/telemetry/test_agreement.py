"""Spans, state log, metrics and the clients' own count agree to the record."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import AcknowledgeType, connect
from sharemesh.domain.delivery_state import Cause
from sharemesh.domain.share_state.records import StateSnapshot, StateUpdate
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.child_process import ProcessState
from sharemesh.serve.supervise.local_cluster import LocalCluster
from sharemesh.telemetry import names
from sharemesh_spark.generation.source import shard_records
from tests.telemetry.expressions import expressions, faults
from tests.telemetry.scrape import Series, addresses, scrape, spans, sums, total

RECORDS = 10_000
PARTITIONS = 4
LOCK_MS = 4_000
HELD = 400
TOPIC, GROUP = "orders", "billing"
QUIET_S = 2.5
"""Spans leave a process every second: after this, a kill takes none along."""

KINDS = AcknowledgeType
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Books:
    """What the consumers know they did."""

    def __init__(self) -> None:
        self.seen: Counter = Counter()
        self.renewed: set = set()
        self.settled: Counter = Counter()
        self.done: set = set()

    def decide(self, record) -> AcknowledgeType:
        key = (record.partition, record.offset)
        if record.delivery_count == 1:
            turn = record.offset % 10
            if turn == 3:
                return KINDS.RELEASE
            if turn == 5 and (record.offset // 10) % 2:
                return KINDS.REJECT
            if turn == 7 and key not in self.renewed:
                self.renewed.add(key)
                return KINDS.RENEW
        return KINDS.ACCEPT


async def turn(consumer, books: Books) -> int:
    records = await consumer.poll(300)
    if not records:
        return 0
    sent: dict[int, list] = {}
    for record in records:
        kind = books.decide(record)
        consumer.acknowledge(record, kind)
        sent.setdefault(record.partition, []).append((record.offset, kind))
    results = await consumer.commit_sync(10_000)
    for source, error in results.items():
        for offset, kind in sent.get(source.partition, ()) if error is None else ():
            books.settled[kind] += 1
            if kind in (KINDS.ACCEPT, KINDS.REJECT):
                books.done.add((source.partition, offset))
    return len(records)


def pages(cluster: LocalCluster) -> list[Series]:
    found = []
    for status in cluster.processes:
        if status.role != "etcd":
            log = cluster.directory / "logs" / f"{status.name}.log"
            found.append(scrape(addresses(log)[-1]))
    return found


def log_totals(data: Path, shards: int) -> tuple[Counter, set[str]]:
    """Return offsets by cause that the state log holds, and the span ids named there."""
    causes: Counter = Counter()
    named = set()
    for shard in range(shards):
        for _, _, record in shard_records(data, shard):
            if not isinstance(record, StateUpdate | StateSnapshot):
                continue
            changed = record.batches if isinstance(record, StateUpdate) else record.changed
            for batch in changed:
                cause = batch.cause or record.origin.cause
                causes[Cause(cause)] += batch.last_offset - batch.first_offset + 1
            if changed:
                named.add(record.origin.span_id.hex())
    return causes, named


@pytest.mark.integration
@pytest.mark.timeout(170)
async def test_acquisitions_acknowledgements_and_expiries_agree_to_the_record(tmp_path) -> None:
    traces = tmp_path / "traces"
    settings = ServeSettings(
        data_directory=tmp_path / "data",
        group_shards=2,
        state_shards=2,
        metrics_port=0,
        trace_directory=traces,
        configs={"group.share.min.record.lock.duration.ms": "1000"},
    )
    cluster = LocalCluster(settings, UpSettings(base_port=0), clock=SystemClock())
    await cluster.start()
    books = Books()
    before_kill: list[Series] = []
    try:
        where = connect(",".join(cluster.bootstrap))
        admin = where.async_admin()
        await admin.create_topic(TOPIC, PARTITIONS)
        await admin.alter_group_configs(
            GROUP,
            {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_MS)},
        )
        await admin.close()
        async with where.async_producer() as producer:
            for number in range(RECORDS):
                headers = [("traceparent", TRACE)] if number % 100 == 0 else []
                await producer.send(
                    TOPIC, b"%d" % number, partition=number % PARTITIONS, headers=headers
                )
            await producer.flush()

        # Somebody takes records and says nothing: their locks expire.
        holder = where.async_share_consumer(
            GROUP, share_acknowledgement_mode="explicit", max_poll_records=HELD
        )
        await holder.subscribe([TOPIC])
        held = []
        while not held:
            held = await holder.poll(500)
        await asyncio.sleep(LOCK_MS / 1000 + 0.5)
        worker = where.async_share_consumer(
            GROUP, share_acknowledgement_mode="explicit", max_poll_records=500
        )
        await worker.subscribe([TOPIC])
        while len(books.done) < RECORDS // 2:
            await turn(worker, books)
        await worker.close(timeout_ms=5_000)
        await holder.close(timeout_ms=5_000)
        await asyncio.sleep(LOCK_MS / 1000 + QUIET_S)

        # A leader dies; what it did is in its files and on its page, for it was quiet.
        async with where.async_admin() as admin:
            leader_id = (await admin.describe_topics([TOPIC]))[TOPIC].partitions[0].leader_id
        status = next(each for each in cluster.processes if each.node_id == leader_id)
        log = cluster.directory / "logs" / f"{status.name}.log"
        before_kill.append(scrape(addresses(log)[-1]))
        pid = cluster.kill("share-leader", status.index)

        worker = where.async_share_consumer(
            GROUP, share_acknowledgement_mode="explicit", max_poll_records=500
        )
        await worker.subscribe([TOPIC])
        async with asyncio.timeout(60):
            while len(books.done) < RECORDS:
                await turn(worker, books)
            while not (status.state is ProcessState.READY and status.pid != pid):
                await asyncio.sleep(0.1)
        await asyncio.sleep(LOCK_MS / 1000 + 0.5)
        await worker.poll(0)
        gauges = pages(cluster)  # while somebody is there: a group without sessions is forgotten
        await worker.close(timeout_ms=5_000)
        await asyncio.sleep(0.5)
        scraped = before_kill + pages(cluster)
    finally:
        await cluster.stop()

    found = spans(traces)
    assert len({span["resource"]["service.instance.id"] for span in found}) >= 5
    acquired, settled = sums(found, names.ACQUIRE), sums(found, names.SETTLE)
    expired, released = sums(found, names.LOCK_TIMEOUT), sums(found, names.RELEASE)
    causes, named = log_totals(cluster.directory, settings.state_shards)

    assert acquired[names.ACQUIRED_COUNT] == total(scraped, "share_records_acquired_total")
    assert acquired[names.ACQUIRED_COUNT] >= RECORDS + HELD
    logged = {KINDS.ACCEPT: Cause.ACCEPT, KINDS.RELEASE: Cause.RELEASE, KINDS.REJECT: Cause.REJECT}
    for kind in (KINDS.ACCEPT, KINDS.RELEASE, KINDS.REJECT, KINDS.RENEW):
        metric = total(scraped, "share_records_acknowledged_total", type=kind.name.lower())
        assert books.settled[kind] > 0, kind
        assert settled[names.ACK_COUNTS[kind]] == metric == books.settled[kind], kind
        if kind in logged:
            assert causes[logged[kind]] == metric, kind
    assert settled[names.RETURNED_COUNT] == total(scraped, "share_records_returned_total")
    assert expired[names.EXPIRED_COUNT] == total(scraped, "share_locks_expired_total")
    assert expired[names.EXPIRED_COUNT] == causes[Cause.LOCK_EXPIRY] + causes[Cause.DELIVERY_LIMIT]
    assert expired[names.EXPIRED_COUNT] >= len(held)
    assert released[names.RELEASED_COUNT] == total(scraped, "share_records_released_total")
    assert released[names.RELEASED_COUNT] == causes[Cause.SESSION_CLOSE]
    assert total(scraped, "share_telemetry_spans_dropped_total") == 0

    mine = {what: text for what, text in expressions().items() if "share_kafka_" not in text}
    wrong = {what: faults(text, gauges) for what, text in mine.items()}
    assert not {what: why for what, why in wrong.items() if why}

    ids = {span["span_id"] for span in found}
    assert named, "no record of the state log names a span"
    assert named <= ids
    acquisitions = {s["span_id"] for s in found if s["name"].startswith("acquire ")}
    settles = [s for s in found if s["name"].startswith("settle ") and not s["error"]]
    assert all(s["parent_span_id"] in acquisitions for s in settles)
    assert all({link["span_id"] for link in s["links"]} <= acquisitions for s in settles)
    acquires = [s for s in found if s["name"].startswith("acquire ")]
    linked = [[link["trace_id"] for link in s["links"]] for s in acquires]
    produced = TRACE.decode().split("-")[1]
    assert any(produced in traces for traces in linked)
    # Besides its producers an acquisition names the stream that it was made for.
    assert all(sum(trace != produced for trace in traces) == 1 for traces in linked)
    served = [s for s in found if s["kind"] == "SERVER"]
    assert {s["attributes"]["rpc.method"] for s in served} >= {
        "sharemesh.v1.ShareLeader/Consume",
        "sharemesh.v1.ShareCoordinator/WriteShareGroupState",
        "sharemesh.v1.RecordLog/Produce",
    }
    assert sum(s["name"].startswith("leader_change ") for s in found) > PARTITIONS
    assert re.search(r'"name": "placement"', json.dumps(found))
