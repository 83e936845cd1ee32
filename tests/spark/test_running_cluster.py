"""`sharemesh-spark` against running roles: commit, reload from the generation, a record's life."""

import asyncio
import json
import sys

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import AcknowledgeType, connect
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.child_process import ProcessState
from sharemesh.serve.supervise.local_cluster import LocalCluster
from sharemesh_spark.generation.generation_files import hinted_generation, read_manifest

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(900)]
TOPIC, GROUP, RECORDS, REJECTED = "orders", "billing", 200, 17


async def consume(where, count):
    """Accept everything but one record; return how many were decided."""
    consumer = where.async_share_consumer(GROUP, share_acknowledgement_mode="explicit")
    await consumer.subscribe([TOPIC])
    decided = 0
    async with asyncio.timeout(120):
        while decided < count:
            for record in await consumer.poll(300):
                reject = record.offset == REJECTED
                kind = AcknowledgeType.REJECT if reject else AcknowledgeType.ACCEPT
                consumer.acknowledge(record, kind)
                decided += 1
            assert not any((await consumer.commit_sync(10_000)).values())
    await consumer.close(timeout_ms=5_000)


async def produce(where, count):
    async with where.async_producer() as producer:
        for number in range(count):
            await producer.send(TOPIC, b"%d" % number, partition=0)
        await producer.flush()


async def spark(*arguments):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sharemesh_spark", *map(str, arguments),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        said, complained = await asyncio.wait_for(process.communicate(), 300)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, said.decode(), complained.decode()


async def test_a_commit_is_loaded_and_a_record_is_explained_by_its_name(tmp_path):
    settings = ServeSettings(data_directory=tmp_path / "data", group_shards=1, state_shards=2)
    cluster = LocalCluster(settings, UpSettings(base_port=0), clock=SystemClock())
    await cluster.start()
    try:
        bootstrap = cluster.bootstrap[0]
        where = connect(",".join(cluster.bootstrap))
        admin = where.async_admin()
        await admin.create_topic(TOPIC, 1)
        await admin.alter_group_configs(GROUP, {"share.auto.offset.reset": "earliest"})
        await admin.close()
        await produce(where, RECORDS)
        await consume(where, RECORDS)

        figures = tmp_path / "figures.json"
        data = cluster.directory
        code, said, complained = await spark(
            "compact", data, "--commit", "--bootstrap", bootstrap, "--json", figures, "--cores", 1
        )
        assert code == 0, said + complained
        assert complained == "", "Spark's own warnings are of no concern to a user"
        told = json.loads(figures.read_text())["compaction"]
        generation = hinted_generation(data)
        manifest = read_manifest(data, generation)
        assert told["generation_id"] == generation
        assert told["committed_shards"] == [s.shard for s in manifest.shards if s.end_offset]
        assert manifest.share_partitions == 1

        # The coordinator dies; the next one loads the generation, and the state is the same.
        before = cluster.status("share-coordinator", 0).pid
        cluster.kill("share-coordinator", 0)
        async with asyncio.timeout(60):
            status = cluster.status("share-coordinator", 0)
            while status.state is not ProcessState.READY or status.pid == before:
                await asyncio.sleep(0.1)
                status = cluster.status("share-coordinator", 0)
        await produce(where, 10)
        await consume(where, 10)

        record = f"{TOPIC}/0@{REJECTED}"
        code, said, complained = await spark(
            "explain", record, "--group", GROUP, "--data", data, "--bootstrap", bootstrap
        )
        assert code == 0, said + complained
        assert "archived, delivery count 1: reject by " in said
        code, said, _ = await spark(
            "explain", "nothing/0@1", "--group", GROUP, "--data", data, "--bootstrap", bootstrap
        )
        assert code == 1
        assert "topic 'nothing' is not known" in said
    finally:
        await cluster.stop()
    code, said, _ = await spark("explain", record, "--group", GROUP, "--data", data,
                                "--bootstrap", bootstrap)  # fmt: skip
    assert code == 1
    assert f"{bootstrap} did not answer" in said
