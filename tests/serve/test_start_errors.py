"""Each way a start can fail ends in one sentence and its own exit code, in a real process."""

import asyncio
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.serve.exit_codes import ExitCode
from sharemesh.v1 import admin_pb2
from tests.etcd_server import EtcdServer, etcd_binary
from tests.free_ports import free_port

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    server = EtcdServer(tmp_path_factory.mktemp("etcd"))
    server.launch()
    yield server
    server.stop()


def serve(*flags: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sharemesh.serve", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def role(etcd, directory: Path, *flags: str) -> tuple[str, ...]:
    return (
        "--role=share-coordinator",
        f"--etcd-endpoints={etcd.endpoint}",
        f"--data-directory={directory}",
        "--listen-port=0",
        *flags,
    )


def assert_refused(done: subprocess.CompletedProcess[str], code: ExitCode, *words: str) -> None:
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == code, done.stderr
    assert last.startswith("sharemesh: ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in last


@pytest.fixture
def launch():
    """Start a process that does not outlive the test."""
    launched = []

    def start(command: list[str], **streams: int) -> subprocess.Popen[str]:
        launched.append(subprocess.Popen(command, text=True, **streams))
        return launched[-1]

    yield start
    for process in launched:
        process.kill()
        with process:  # closes its streams and waits
            pass


@pytest.fixture
def running(etcd, tmp_path):
    """A process that was started well, with its directory."""
    command = [sys.executable, "-m", "sharemesh.serve", *role(etcd, tmp_path / "data")]
    command.append(f"--node-id={tmp_path.name}")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ready = json.loads(process.stdout.readline())
    yield process, ready, tmp_path / "data"
    process.kill()
    process.communicate()


def test_ready_is_told_as_json_and_sigterm_ends_in_order(running) -> None:
    process, ready, _ = running
    assert ready["kind"] == "ready"
    assert ready["pid"] == process.pid
    with socket.create_connection((ready["host"], ready["port"]), timeout=5):
        pass
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert "event=stopped" in err


async def health(address: str, service: str) -> int:
    async with grpc.aio.insecure_channel(address) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        return (await check(health_pb2.HealthCheckRequest(service=service), timeout=5)).status


def test_probe_port_tells_readiness_and_follows_the_session(etcd, tmp_path) -> None:
    flags = role(etcd, tmp_path / "d", "--cluster-id=probed", "--node-id=p", "--health-port=0")
    command = [sys.executable, "-m", "sharemesh.serve", *flags, "--session-ttl-ms=2000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    ready = json.loads(process.stdout.readline())
    address = f"{ready['host']}:{ready['health_port']}"
    serving = health_pb2.HealthCheckResponse.SERVING

    async def until(wanted: bool) -> None:
        async with asyncio.timeout(15):
            while (await health(address, "readiness") == serving) != wanted:
                await asyncio.sleep(0.05)
        assert await health(address, "liveness") == serving

    try:
        asyncio.run(until(True))
        etcd.send_signal(signal.SIGSTOP)
        asyncio.run(until(False))
        etcd.send_signal(signal.SIGCONT)
        asyncio.run(until(True))
    finally:
        etcd.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def test_port_in_use(etcd, tmp_path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = serve(*role(etcd, tmp_path / "d", f"--listen-port={port}"))
    assert_refused(done, ExitCode.PORT_IN_USE, f"127.0.0.1:{port}", "in use", "another one")


def test_etcd_that_does_not_answer(tmp_path) -> None:
    class Nowhere:
        endpoint = f"127.0.0.1:{free_port()}"

    done = serve(*role(Nowhere, tmp_path / "d"))
    assert_refused(done, ExitCode.COORDINATION_UNREACHABLE, Nowhere.endpoint, "does not answer")


def test_directory_of_another_cluster(etcd, running) -> None:
    _, _, directory = running
    done = serve(*role(etcd, directory, "--cluster-id=other", "--node-id=x"))
    assert_refused(done, ExitCode.OTHER_CLUSTER, str(directory), "'local'", "own directory")


def test_directory_of_a_newer_format(etcd, running, tmp_path) -> None:
    _, _, directory = running
    newer = tmp_path / "newer"
    shutil.copytree(directory, newer)
    file = newer / "cluster.json"
    fields = json.loads(file.read_text())
    (name,) = [name for name in fields if "format" in name or name in {"v", "version"}]
    fields[name] = 99
    file.write_text(json.dumps(fields))
    done = serve(*role(etcd, newer, "--node-id=x"))
    assert_refused(done, ExitCode.OTHER_CLUSTER, str(newer), "99")


def test_other_shard_counts_than_at_creation(etcd, running) -> None:
    _, _, directory = running
    done = serve(*role(etcd, directory, "--state-shards=3", "--node-id=x"))
    assert_refused(done, ExitCode.OTHER_CLUSTER, "state shards", "fixed at creation")


def test_directory_that_cannot_be_written(etcd, tmp_path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = serve(*role(etcd, file))
    assert_refused(done, ExitCode.DIRECTORY_UNUSABLE, str(file), "data_directory")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.geteuid() != 0:
        assert_refused(serve(*role(etcd, locked)), ExitCode.DIRECTORY_UNUSABLE, str(locked))


def test_unknown_role_and_unknown_setting(tmp_path) -> None:
    done = serve("--role=share-leaders")
    assert_refused(done, ExitCode.SETTINGS, "did you mean share-leader?")
    config = tmp_path / "c.toml"
    config.write_text("listen_prot = 1")
    done = serve("--config", str(config))
    assert_refused(done, ExitCode.SETTINGS, "did you mean listen_port?", str(config))


def test_missing_certificate_files(etcd, tmp_path) -> None:
    gone = tmp_path / "gone.pem"
    done = serve(*role(etcd, tmp_path / "d", f"--tls-certificate={gone}", f"--tls-key={gone}"))
    assert_refused(done, ExitCode.SETTINGS, str(gone))


def test_a_node_id_that_a_live_process_holds(etcd, running) -> None:
    _, ready, directory = running
    done = serve(
        *role(etcd, directory, f"--node-id={ready['node_id']}", "--session-ttl-ms=2000"),
    )
    assert_refused(done, ExitCode.COORDINATION_UNREACHABLE, ready["node_id"], "another node id")


def test_the_child_dies_when_its_parent_is_killed(etcd, tmp_path) -> None:
    flags = list(role(etcd, tmp_path / "d"))
    script = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'sharemesh.serve', '--parent-pid',"
        f" str(os.getpid()), *{flags!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    descriptor = os.pidfd_open(pid)
    try:
        parent.kill()
        parent.communicate()
        assert select.select([descriptor], [], [], 10)[0], "the child outlived its parent"
    finally:
        os.close(descriptor)


def members(etcd, cluster_id: str) -> str:
    """Return the registrations in etcd, as text."""
    etcdctl = Path(etcd_binary()).parent / "etcdctl"
    done = subprocess.run(
        [etcdctl, f"--endpoints={etcd.endpoint}", "get", "--prefix",
         f"/sharemesh/{cluster_id}/members/"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_guard_revokes_the_lease_of_its_child_and_ends_like_it(etcd, tmp_path, launch) -> None:
    flags = role(etcd, tmp_path / "d", "--cluster-id=guarded", "--node-id=g", "--guard")
    command = [sys.executable, "-m", "sharemesh.serve", *flags]
    process = launch(command, stderr=subprocess.PIPE)
    ready = next(line for line in process.stderr if "event=ready" in line)
    pid = int(ready.rpartition("pid=")[2])
    assert pid != process.pid
    assert '"pid"' in members(etcd, "guarded")
    os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGKILL, err
    assert members(etcd, "guarded") == "", "the lease was left to run out"


def test_guard_forwards_sigterm_and_the_child_drains(etcd, tmp_path, launch) -> None:
    flags = role(etcd, tmp_path / "d", "--cluster-id=guarded2", "--node-id=g", "--guard")
    command = [sys.executable, "-m", "sharemesh.serve", *flags]
    process = launch(command, stderr=subprocess.PIPE)
    assert any("event=ready" in line for line in process.stderr)
    process.terminate()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert "event=stopped" in err


def test_guard_hands_on_the_exit_code_of_a_start_that_failed(etcd, tmp_path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert_refused(serve(*role(etcd, file, "--guard")), ExitCode.DIRECTORY_UNUSABLE, str(file))


def test_single_process_serves_all_roles_and_says_what_it_is(tmp_path, launch) -> None:
    command = [
        sys.executable, "-m", "sharemesh.serve", f"--data-directory={tmp_path / 'd'}",
        "--listen-port=0", "--set", "group.share.max.size=7",
    ]  # fmt: skip
    process = launch(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ready = json.loads(process.stdout.readline())
    asyncio.run(use_everything(f"{ready['host']}:{ready['port']}"))
    process.terminate()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert "coordination is in memory" in err


async def use_everything(address: str) -> None:
    caller = GrpcCaller(SystemClock())
    topics = admin_pb2.CreateTopicsRequest(topics=[admin_pb2.NewTopic(name="t", partitions=2)])
    created = await caller.call(methods.CREATE_TOPICS, topics, to=address)
    assert [topic.error_code for topic in created.topics] == [0]
    cluster = await caller.call(
        methods.DESCRIBE_CLUSTER, admin_pb2.DescribeClusterRequest(), to=address
    )
    assert len(cluster.members) == 1
    assert not cluster.unassigned
    found = await caller.call(
        methods.FIND_COORDINATOR, admin_pb2.FindCoordinatorRequest(keys=["g"]), to=address
    )
    assert found.coordinators[0].node.port == int(address.rpartition(":")[2])
    configs = await caller.call(
        methods.DESCRIBE_CONFIGS,
        admin_pb2.DescribeConfigsRequest(
            resources=[admin_pb2.ConfigResource(type=admin_pb2.CONFIG_RESOURCE_TYPE_CLUSTER)]
        ),
        to=address,
    )
    values = {entry.name: (entry.value, entry.source) for entry in configs.results[0].configs}
    assert values["group.share.max.size"] == ("7", "cluster")
    assert values["group.share.session.timeout.ms"] == ("45000", "default")
    await caller.close()
