"""Commits and look-ups over real gRPC: TLS, headers, and what is said when it goes wrong."""

import asyncio
import json
from pathlib import Path

import pytest
import trustme

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.domain.ids import TopicId, format_topic_id, home_shard
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.server_certificates import ServerCertificates
from sharemesh.rpc.tls import TlsFiles
from sharemesh.v1 import admin_pb2, share_coordinator_pb2
from sharemesh_spark import __main__ as application
from sharemesh_spark.cluster_calls import (
    RUN_FILE,
    ClusterAccess,
    NotAnsweredError,
    access_of,
    cluster_calls,
    key_in_shard,
    named,
    topic_names,
)
from sharemesh_spark.options import parser, spark_settings

SECRET = ("sharemesh-cluster-secret", "s3cr3t")


class Mesh:
    """One process that finds itself as every coordinator, and notes who commits what."""

    def __init__(self, tls=None):
        self.commits = []
        certificates = None if tls is None else ServerCertificates(tls, SystemClock())
        self._server = GrpcServer(tls=certificates)
        self._server.offer(methods.FIND_COORDINATOR, self._find)
        self._server.offer(methods.COMMIT_GENERATION, self._commit)
        self._server.offer(methods.DESCRIBE_TOPICS, self._topics)

    async def __aenter__(self):
        self.port = await self._server.start("127.0.0.1", 0)
        self.bootstrap = f"localhost:{self.port}"
        return self

    async def __aexit__(self, *_):
        await self._server.stop(0)

    async def _find(self, request, _):
        answer = admin_pb2.FindCoordinatorResponse()
        found = answer.coordinators.add(key=request.keys[0])
        found.node.host, found.node.port = "localhost", self.port
        return answer

    async def _commit(self, request, context):
        self.commits.append((request.shard, context.principal, dict(context.metadata)))
        return share_coordinator_pb2.CommitGenerationResponse()

    async def _topics(self, request, _):
        answer = admin_pb2.DescribeTopicsResponse()
        if list(request.names) in ([], ["orders"]):  # no names: all topics
            answer.topics.add(name="orders", topic_id=b"t" * 16)
        return answer


def commit_of(access):
    with cluster_calls(access) as calls:
        request = share_coordinator_pb2.CommitGenerationRequest(shard=3, generation_id="g")
        return calls.commit(request, shards=8)


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.crt")
    for name, subject in (("server", "server"), ("client", "spark")):
        issued = authority.issue_cert("localhost", common_name=subject)
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        for blob in issued.cert_chain_pems:
            blob.write_to_path(folder / f"{name}.crt", append=True)
    return folder


def files(pems, name):
    return {
        "authority": pems / "ca.crt",
        "certificate": pems / f"{name}.crt",
        "key": pems / f"{name}.key",
    }


async def test_a_commit_goes_out_with_the_certificate_and_the_headers(pems):
    server = files(pems, "server")
    async with Mesh(TlsFiles(server["certificate"], server["key"], server["authority"])) as mesh:
        access = access_of(
            mesh.bootstrap, files=files(pems, "client"), headers=["Tenant = blue"], environment={}
        )
        answer = await asyncio.to_thread(commit_of, access)
        assert answer.error_code == 0
        [(shard, principal, metadata)] = mesh.commits
        assert (shard, principal, metadata["tenant"]) == (3, "User:spark", "blue")
        with pytest.raises(NotAnsweredError, match="did not answer Admin/FindCoordinator: unavail"):
            await asyncio.to_thread(commit_of, ClusterAccess(mesh.bootstrap))


async def test_without_tls_the_secret_of_the_environment_goes_along(monkeypatch):
    async with Mesh() as mesh:
        access = access_of(
            mesh.bootstrap,
            files={},
            environment={"SHAREMESH_HEADERS": f"{SECRET[0]}={SECRET[1]}\ntenant=blue\n"},
        )
        assert access.headers == (SECRET, ("tenant", "blue"))
        assert SECRET[1] not in repr(access)
        await asyncio.to_thread(commit_of, access)
        [(_, principal, metadata)] = mesh.commits
        assert principal == "User:ANONYMOUS"
        assert metadata["tenant"] == "blue"


async def test_a_topic_is_looked_up_by_its_name():
    async with Mesh() as mesh:

        def look(name):
            with cluster_calls(ClusterAccess(mesh.bootstrap)) as calls:
                return calls.topic_id(name)

        assert await asyncio.to_thread(look, "orders") == b"t" * 16
        with pytest.raises(NotAnsweredError, match="topic 'nothing' is not known"):
            await asyncio.to_thread(look, "nothing")


def test_options_go_before_the_environment():
    environment = {"SHAREMESH_TLS_AUTHORITY": "/other.crt", "SHAREMESH_HEADERS": "a=1"}
    access = access_of(
        "h:1", files={"authority": Path("/mine.crt")}, headers=["b=2"], environment=environment
    )
    assert access == ClusterAccess("h:1", TlsFiles(authority=Path("/mine.crt")), (("b", "2"),))
    assert access_of("h:1", files={}, environment={}) == ClusterAccess("h:1")


def test_bad_access_is_told_without_the_secret(tmp_path):
    with pytest.raises(NotAnsweredError, match="not of the form name=value") as caught:
        access_of("h:1", files={}, headers=["s3cr3t"], environment={})
    assert "s3cr3t" not in str(caught.value)
    missing = ClusterAccess("h:1", TlsFiles(authority=tmp_path / "gone.crt"))
    with pytest.raises(NotAnsweredError, match=r"gone\.crt"), cluster_calls(missing):
        pass


@pytest.mark.parametrize("shards", [1, 7, 16, 1_000])
def test_there_is_a_key_for_each_shard(shards):
    for shard in {0, shards // 2, shards - 1}:
        assert home_shard(key_in_shard(shard, shards), shards) == shard


def test_a_commit_without_a_cluster_is_wrong_usage(tmp_path, capsys):
    assert application.main(["compact", str(tmp_path), "--commit"]) == 2
    assert "--bootstrap" in capsys.readouterr().out


def test_settings_of_spark_come_from_options():
    parsed = parser().parse_args(
        ["compact", "data", "--master", "k8s://https://k", "--driver-host", "10.0.0.7",
         "--conf", "spark.executor.instances=2", "--conf", "spark.driver.host=x"]
    )  # fmt: skip
    assert spark_settings(parsed) == {
        "spark.master": "k8s://https://k",
        "spark.driver.host": "10.0.0.7",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.executor.instances": "2",
    }
    assert spark_settings(parser().parse_args(["history", "data"])) == {}


@pytest.mark.parametrize("wrong", ["spark.x", "executor.instances=2", "=1"])
def test_a_setting_that_is_none_is_wrong_usage(wrong, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["compact", "data", "--conf", wrong])
    assert "spark.name=value" in capsys.readouterr().err


async def test_topics_are_named_by_the_cluster_that_runs_in_the_directory(tmp_path):
    topic_id = format_topic_id(TopicId(b"t" * 16))
    rows = [{"topic_id": topic_id, "records": 1}, {"topic_id": "gone", "records": 2}]
    run_file = tmp_path / RUN_FILE
    assert topic_names(tmp_path, None) == {}
    async with Mesh() as mesh:
        run_file.parent.mkdir()
        run_file.write_text(json.dumps({"bootstrap": [mesh.bootstrap]}))
        names = await asyncio.to_thread(topic_names, tmp_path, None)
        assert named(rows, names) == [
            {"topic": "orders", "records": 1},
            {"topic": "gone", "records": 2},
        ]
    assert await asyncio.to_thread(topic_names, tmp_path, None) == {}, "it does not run any more"
    with pytest.raises(NotAnsweredError, match="did not answer"):
        await asyncio.to_thread(topic_names, tmp_path, ClusterAccess(mesh.bootstrap))
    run_file.write_text("{}")
    assert topic_names(tmp_path, None) == {}


def test_idn_3_a_token_is_read_at_each_call_and_goes_over_tls_only(tmp_path):
    (tmp_path / "token").write_text("first")
    environment = {"SHAREMESH_TOKEN_FILE": str(tmp_path / "token")}
    with pytest.raises(NotAnsweredError, match="over TLS only"):
        access_of("a:1", files={}, environment=environment)
    access = access_of("a:1", files={"authority": tmp_path / "ca"}, environment=environment)
    assert access.metadata() == (("authorization", "Bearer first"),)
    (tmp_path / "token").write_text("second")
    assert access.metadata() == (("authorization", "Bearer second"),)
    (tmp_path / "token").unlink()
    with pytest.raises(NotAnsweredError, match="cannot read the token file"):
        access.metadata()
