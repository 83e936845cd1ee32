"""`sharemesh transactions list|abort` and the admin client's methods behind it (BND-12)."""

import asyncio
import json
from dataclasses import replace

import pytest

from sharemesh import methods
from sharemesh.client import AdminClient, AsyncAdminClient
from sharemesh.client.admin.client import LAST_STABLE, LATEST
from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.errors import InvalidProducerEpochError, UnknownTopicOrPartitionError
from sharemesh.codec.record_set import build_batch
from sharemesh.v1 import record_log_pb2 as pb
from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]
WHERE = TopicPartition("orders", 1)


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("transactions") / "data") as running:
        assert running.sharemesh("topics", "create", "orders", "--partitions", "2").returncode == 0
        yield running


def write(up, producer_id, sequence=0):
    """Write a transactional batch, as somebody else's producer would; return the error code."""
    records = bytes(
        build_batch(
            [(None, b"v", ())] * 2,
            timestamp_ms=1_700_000_000_000,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
    )

    def request(topic_id):
        part = pb.ProducePartition(topic_id=topic_id, partition=1, records=records)
        return pb.ProduceRequest(partitions=[part], transactional_id="orders-1")

    async def send():
        async with AsyncAdminClient({"bootstrap.servers": up.bootstrap}) as admin:
            answer = await admin._calls.leader(
                WHERE, methods.PRODUCE, request, lambda found: found.partitions[0].error_code
            )
            return answer.partitions[0].error_code

    return asyncio.run(send())


def test_an_open_transaction_is_listed_aborted_and_its_producer_fenced(up):
    assert "no transaction is open" in up.sharemesh("transactions", "list", "orders").stdout
    assert write(up, 7) == 0
    assert write(up, 8) == 0
    listed = up.sharemesh("transactions", "list", "orders", "--json")
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    rows = rows[0] if isinstance(rows[0], list) else rows
    assert [(each["partition"], each["start_offset"], each["producer_id"]) for each in rows] == [
        (1, 0, 7),
        (1, 2, 8),
    ]
    wrong = up.sharemesh("transactions", "abort", "orders/1", "--start-offset", "1")
    assert (wrong.returncode, "sharemesh transactions list orders" in wrong.stderr) == (1, True)
    done = up.sharemesh("transactions", "abort", "orders/1", "--start-offset", "0")
    assert (done.returncode, done.stdout.strip()) == (
        0,
        "transaction of producer 7 in orders/1 aborted",
    )
    assert write(up, 7, sequence=2) == 47
    with AdminClient({"bootstrap.servers": up.bootstrap}) as admin:
        [left] = admin.list_transactions([WHERE])[WHERE]
        assert (left.producer_id, left.start_offset) == (8, 2)
        admin.abort_transaction(WHERE, left)
        with pytest.raises(InvalidProducerEpochError):
            admin.abort_transaction(WHERE, replace(left, producer_epoch=-1))
        absent = TopicPartition("absent", 0)
        assert isinstance(admin.list_transactions([absent])[absent], UnknownTopicOrPartitionError)
        ends = [admin.list_offsets({WHERE: end})[WHERE].offset for end in (LAST_STABLE, LATEST)]
        assert ends == [6, 6]
