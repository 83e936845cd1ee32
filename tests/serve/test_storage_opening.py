"""What a start says of its storage, and what it needs beside it (KTP-13, KTP-17)."""

import logging
import random

import pytest

from sharemesh.cluster.bootstrap import ensure_cluster
from sharemesh.cluster.store.storage_record import StorageRecord, store_storage
from sharemesh.domain.ids import TopicId
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage_opening import StorageOpening
from sharemesh.testing.cluster_records import ClusterRecords
from tests.clocks import LoopClock

SERVERS = ("127.0.0.1:9092",)
RECORD = StorageRecord("kafka", "p-", TopicId(b"s" * 16), TopicId(b"g" * 16), 8, 4)


def opening(**settings: object) -> StorageOpening:
    given = ServeSettings(storage="kafka", kafka_bootstrap_servers=SERVERS, **settings)
    return StorageOpening(given, LoopClock(), random.Random(1))


def test_ktp_17_a_start_says_what_confirmed_means(caplog):
    caplog.set_level(logging.INFO)
    opening().tell()
    assert "acknowledged by 2 of 3 copies" in caplog.text
    assert "not a power cut of all of them at once" in caplog.text
    assert not [each for each in caplog.records if each.levelno > logging.INFO]


def test_ktp_17_a_single_replica_is_a_warning(caplog):
    opening(kafka_single_replica=True).tell()
    assert "single replica" in caplog.text
    assert [each.levelno for each in caplog.records] == [logging.WARNING]


def test_storage_kafka_needs_etcd_and_no_data_directory(tmp_path):
    directory = tmp_path / "data"
    with pytest.raises(StartError, match="needs etcd") as caught:
        opening(data_directory=directory).prepare()
    assert caught.value.code is ExitCode.SETTINGS
    opening(data_directory=directory, etcd_endpoints=("127.0.0.1:2379",)).prepare()
    assert not directory.exists()


async def test_ktp_13_an_embedded_process_does_not_start_in_a_cluster_on_kafka(tmp_path):
    made = ClusterRecords(LoopClock(), cluster_id="local")
    await made.open()
    cluster = await ensure_cluster(made.coordination, "local", group_shards=1, state_shards=1)
    await store_storage(made.coordination, "local", RECORD)
    settings = ServeSettings(data_directory=tmp_path)
    with pytest.raises(StartError, match="keeps its logs in a Kafka cluster") as caught:
        await StorageOpening(settings, LoopClock(), random.Random(1)).claim(
            made.coordination, cluster
        )
    assert caught.value.code is ExitCode.OTHER_CLUSTER
    assert list(tmp_path.iterdir()) == []
    await made.close()
