"""Generations that lie where nobody answers, or in an object store (LOG-24)."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharemesh.codec.generation import (
    FORMAT_VERSION,
    Manifest,
    ShardManifest,
    arrow_schema,
    encode_manifest,
)
from sharemesh.domain.share_state.fold import Floors, content_hash
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import Generation
from sharemesh.object_store.stored_objects import StoredObjects
from sharemesh.ports.generation_files import FilesUnreachableError
from sharemesh.ports.shard_log import CorruptLogError, LogFailedError
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.kafka_settings import check_kafka
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.share_coordinator.generations import GenerationReader, restore
from tests.object_server import CREDENTIALS, object_server


class Silent:
    """A place that does not answer."""

    async def run(self, job):
        return job()

    def list(self, path):
        raise FilesUnreachableError(f"s3://mesh/{path} cannot be listed: no route")


class EmptyLog:
    start_offset = committed_end_offset = 0


async def test_log_24_a_place_that_does_not_answer_is_no_damage():
    """The load fails, and whoever leads the shard next tries again."""
    with pytest.raises(LogFailedError, match="shard 3 waits for its generation: s3://mesh/gen"):
        await restore(ShareStateMachine(), 3, EmptyLog(), reader=GenerationReader(Silent()))


async def test_log_24_an_empty_store_has_no_generation(tmp_path):
    store = StoredObjects(tmp_path.as_uri())
    reader = GenerationReader(store)
    assert await restore(ShareStateMachine(), 0, EmptyLog(), reader=reader) is None
    store.close()


@pytest.mark.parametrize("secret", ["se/cret", "se cret", "se+cret/of%mine"])
def test_log_24_a_place_that_cannot_be_opened_is_named_without_its_login(secret):
    """Keys of S3 may have a slash in them; PyArrow shows what it cannot read."""
    store = StoredObjects(f"s3://AKIA:{secret}@mesh/generations?region=here")
    with pytest.raises(FilesUnreachableError, match=r"s3://mesh/generations cannot be opened") as e:
        store.list("")
    assert "cret" not in str(e.value)
    assert e.value.__cause__ is None
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["s3", "gs"])
async def test_log_24_a_generation_is_loaded_from_a_store_and_a_missing_file_is_damage(
    monkeypatch, scheme
):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    rows = [dict.fromkeys(arrow_schema().names) | {"shard": 0, "kind": "floors"}]
    rows[0] |= {"state_epoch": 2, "leader_epoch": 7}
    written = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema()), written)
    content = content_hash({}, Floors(2, 7))
    shard = ShardManifest(0, 1, 1, 0, 100, content.hex(), files=("part.parquet",))
    manifest = Manifest(FORMAT_VERSION, "g", "cluster", (shard,), 100)
    pointer = Generation("g", "", 1, "generations/g/manifest.json", content, FORMAT_VERSION, -1, 0)
    with object_server(scheme) as server:
        store = StoredObjects(server.uri("mesh"))
        reader = GenerationReader(store)
        assert not await reader.any()
        store.write("generations/g/part.parquet", written.getvalue())
        store.write("generations/g/manifest.json", encode_manifest(manifest).encode())
        store.write("generations/g/COMMITTED", b"")
        assert await reader.any()
        assert await reader.hinted_end(0) == 1
        assert await reader.read(pointer, 0) == ({}, Floors(2, 7))
        store.delete("generations/g/part.parquet")
        with pytest.raises(CorruptLogError, match="generation g of shard 0 cannot be read"):
            await reader.read(pointer, 0)
    with pytest.raises(FilesUnreachableError):
        await reader.any()
    store.close()


@pytest.mark.parametrize("place", ["/generations", "file:///g", "s3://bucket/mesh", "gs://b/m"])
def test_generations_are_at_a_path_or_a_uri(place):
    check_kafka(settings(place))


@pytest.mark.parametrize("place", ["hdfs://x/y", "s3:/bucket", "file://host/x"])
def test_any_other_place_is_refused_at_the_start(place):
    with pytest.raises(StartError, match=r"setting generations: .* write") as caught:
        check_kafka(settings(place))
    assert caught.value.code is ExitCode.SETTINGS


def settings(place):
    return ServeSettings(storage="kafka", kafka_bootstrap_servers=("one:9092",), generations=place)
