"""Generations and history in an object store: nothing counts before it is whole (REP-13)."""

import pytest

from sharemesh.object_store.stored_objects import StoredObjects, path_of
from sharemesh.ports.generation_files import FilesUnreachableError
from sharemesh_spark.kept_files import (
    CLAIM_COUNTS_S,
    CLAIMS,
    KeptFilesError,
    RunTakenError,
    kept_in,
)
from tests.free_ports import free_port
from tests.object_server import CREDENTIALS, ObjectServer, object_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["s3", "gs"])
def server(request):
    with object_server(request.param) as running:
        yield running


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def place(server, request):
    return server.uri(request.node.originalname)


def put(files, path, text="x"):
    target = files.directory / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def all_in(files):
    return sorted(
        path.relative_to(files.directory).as_posix()
        for path in files.directory.rglob("*")
        if path.is_file() and path.name != "in-use"
    )


GENERATION = ["generations/1/manifest.json", "generations/1/part-0.parquet"]


def test_what_one_job_publishes_the_next_one_has(place, tmp_path):
    with kept_in(place, tmp_path / "a") as files:
        for path in GENERATION:
            put(files, path)
        files.publish()
        put(files, "generations/1/COMMITTED", "")
        put(files, "history/runs/run=000001/_manifest.json")
        put(files, "history/runs/run=000001/day=D/group_id=g/part.parquet")
        put(files, "generations/2.new/part-0.parquet")
        files.publish()
    with kept_in(place, tmp_path / "b") as files:
        assert all_in(files) == sorted(
            [
                *GENERATION,
                "generations/1/COMMITTED",
                "history/runs/run=000001/_manifest.json",
                "history/runs/run=000001/day=D/group_id=g/part.parquet",
            ]
        )
    store = StoredObjects(place)
    assert store.list("generations") == ["1"]
    assert store.list("generations/1") == ["COMMITTED", "manifest.json", "part-0.parquet"]
    assert store.read("generations/1/part-0.parquet") == b"x"
    store.close()


def test_rep_13_what_a_killed_job_left_without_a_manifest_is_not_there(place, tmp_path):
    store = StoredObjects(place)
    store.write("generations/1/part-0.parquet", b"x")
    store.write("history/runs/run=000001/day=D/part.parquet", b"x")
    with kept_in(place, tmp_path / "a") as files:
        assert all_in(files) == []
        put(files, "generations/2/manifest.json")  # made, and never published
        put(files, "history/runs/run=000001/_manifest.json")
    with kept_in(place, tmp_path / "a") as files:
        assert all_in(files) == []
    store.close()


def test_rep_13_what_a_killed_job_left_of_a_run_does_not_count_with_the_next_one(place, tmp_path):
    store = StoredObjects(place)
    store.write("history/runs/run=000001/day=D/part-dead.parquet", b"x")
    store.write("generations/1/part-0.parquet", b"y")  # as long as the next one's
    with kept_in(place, tmp_path / "a") as files:
        files.claim_run(1, "mine", now_s=1_000_000_000.0)
        put(files, "history/runs/run=000001/_manifest.json")
        put(files, "history/runs/run=000001/day=D/part-mine.parquet")
        put(files, "generations/1/manifest.json")
        put(files, "generations/1/part-0.parquet")
        files.publish()
    with kept_in(place, tmp_path / "b") as files:
        assert all_in(files) == [
            "generations/1/manifest.json",
            "generations/1/part-0.parquet",
            "history/runs/run=000001/_manifest.json",
            "history/runs/run=000001/day=D/part-mine.parquet",
        ]
        assert (files.directory / "generations/1/part-0.parquet").read_bytes() == b"x"
    store.close()


def test_rep_14_of_two_jobs_one_publishes_a_run(place, tmp_path):
    now_s = 1_000_000_000.0
    with kept_in(place, tmp_path / "a") as one, kept_in(place, tmp_path / "b") as other:
        one.claim_run(1, "one", now_s=now_s)
        put(other, "history/runs/run=000001/_manifest.json")
        with pytest.raises(
            RunTakenError, match=r"run 1 of the history in (s3|gs)://mesh/test_rep_14"
        ):
            other.claim_run(1, "other", now_s=now_s)
        assert all_in(other) == [], "it could be published later"
        put(one, "history/runs/run=000001/_manifest.json")
        one.publish()
        with pytest.raises(RunTakenError):
            other.claim_run(1, "other", now_s=now_s + 10 * 365 * CLAIM_COUNTS_S)
        other.claim_run(2, "other", now_s=now_s)
    store = StoredObjects(place)
    assert store.list(CLAIMS) == ["run=000001.one", "run=000002.other"]
    store.close()


def test_rep_14_a_claim_of_a_job_that_died_ends(place, tmp_path):
    store = StoredObjects(place)
    store.write(f"{CLAIMS}/run=000001.dead", b"")
    at_s = store.changed_s(CLAIMS)["run=000001.dead"]
    with kept_in(place, tmp_path) as files:
        with pytest.raises(RunTakenError, match=r"delete history/claims/run=000001\.dead there"):
            files.claim_run(1, "mine", now_s=at_s + CLAIM_COUNTS_S - 60)
        files.claim_run(1, "mine", now_s=at_s + CLAIM_COUNTS_S + 60)
    store.close()


def test_two_runs_do_not_share_a_copy(place, tmp_path):
    with (
        kept_in(place, tmp_path),
        pytest.raises(KeptFilesError, match="give this one a --work of its own"),
        kept_in(place, tmp_path),
    ):
        pass
    with kept_in(place, tmp_path):
        pass


def test_a_store_that_does_not_answer_is_one_sentence(tmp_path):
    nowhere = ObjectServer(free_port()).uri("x")
    words = "s3://mesh/x/generations cannot be listed"
    with pytest.raises(KeptFilesError, match=words), kept_in(nowhere, tmp_path):
        pass


async def test_objects_are_read_as_files_are(place):
    store = StoredObjects(place)
    assert await store.run(lambda: store.list("generations")) == []
    await store.run(lambda: store.write("generations/1/a", b"0123456789"))
    assert await store.run(lambda: store.read("generations/1/a", 2, 3)) == b"234"
    with pytest.raises(FileNotFoundError):
        await store.run(lambda: store.read("generations/1/b"))
    store.delete("generations/1/a")
    store.delete("generations/1/a")
    assert store.tree("generations") == {}
    store.close()
    with pytest.raises(FilesUnreachableError, match="s3://mesh cannot be opened") as caught:
        StoredObjects("s3://key:secret@mesh?unknown=1").list("")
    assert "secret" not in str(caught.value)


def test_paths_and_uris(tmp_path):
    assert path_of(str(tmp_path)) == tmp_path
    assert path_of(tmp_path.as_uri()) == tmp_path
    with kept_in(tmp_path.as_uri(), None) as files:
        assert files.directory == tmp_path
        files.claim_run(1, "a", now_s=0.0)
        files.publish()
    for wrong in ("ftp://x/y", "s3:bucket", "file://host/x", "s3://"):
        with pytest.raises(KeptFilesError, match="write"), kept_in(wrong, None):
            pass
