"""``sharemesh up``: real processes, a real etcd, kills, and a clean end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.ports.cluster import Role
from sharemesh.ports.network import CallFailedError
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.child_process import ProcessState
from sharemesh.serve.supervise.local_cluster import LocalCluster
from sharemesh.v1 import admin_pb2
from tests.etcd_server import EtcdServer
from tests.free_ports import free_port

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def cluster_on(directory: Path, **up) -> LocalCluster:
    serve = ServeSettings(data_directory=directory, group_shards=2, state_shards=2)
    return LocalCluster(serve, UpSettings(base_port=0, **up), clock=SystemClock())


@pytest.fixture
async def cluster(tmp_path):
    cluster = cluster_on(tmp_path / "data")
    await cluster.start()
    yield cluster
    await cluster.stop(fast=True)


async def describe(cluster: LocalCluster, caller: GrpcCaller) -> admin_pb2.DescribeClusterResponse:
    for address in cluster.bootstrap:
        try:
            return await caller.call(
                methods.DESCRIBE_CLUSTER, admin_pb2.DescribeClusterRequest(), to=address
            )
        except CallFailedError:
            continue
    raise AssertionError("no process answers")


async def eventually(condition, timeout_s: float = 30.0) -> float:
    began = time.monotonic()
    while not await condition():
        assert time.monotonic() - began < timeout_s, "not in time"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_every_role_runs_in_its_own_process_and_registers(cluster) -> None:
    roles = [status for status in cluster.processes if status.role != "etcd"]
    pids = {status.pid for status in cluster.processes}
    assert len(roles) == 8
    assert len(pids) == 9
    assert os.getpid() not in pids
    run = json.loads((cluster.directory / "run" / "cluster.json").read_text())
    assert set(run["bootstrap"]) == set(cluster.bootstrap)
    assert len(run["bootstrap"]) == 8
    assert {process["pid"] for process in run["processes"]} == pids
    assert run["etcd_endpoints"] == list(cluster.etcd_endpoints)
    caller = GrpcCaller(SystemClock())

    answer = await describe(cluster, caller)
    members = {(member.node.node_id, member.pid) for member in answer.members}
    assert members == {(status.node_id, status.pid) for status in roles}
    assert all(shard.leader_id for shard in answer.shards)
    assert answer.controller_id == "controller-0"
    await caller.close()


async def test_created_topic_is_led_when_the_answer_comes(cluster) -> None:
    caller = GrpcCaller(SystemClock())
    request = admin_pb2.CreateTopicsRequest(
        topics=[admin_pb2.NewTopic(name="orders", partitions=6)]
    )
    answer = await caller.call(methods.CREATE_TOPICS, request, to=cluster.bootstrap[0])
    assert [topic.error_code for topic in answer.topics] == [0]
    metadata = await caller.call(
        methods.METADATA, admin_pb2.MetadataRequest(), to=cluster.bootstrap[0]
    )
    partitions = metadata.topics[0].partitions
    assert len(partitions) == 6
    assert {partition.leader_epoch for partition in partitions} == {1}
    assert len({partition.leader_id for partition in partitions}) >= 2
    await caller.close()


@pytest.mark.parametrize("role", [str(role) for role in Role])
async def test_killed_role_comes_back_and_registers_again(cluster, role) -> None:
    caller = GrpcCaller(SystemClock())
    status = cluster.status(role, 0)
    address = status.address
    pid = cluster.kill(role, 0)

    async def registered() -> bool:
        members = {
            member.node.node_id: member.pid for member in (await describe(cluster, caller)).members
        }
        return status.state is ProcessState.READY and members.get(status.node_id) == status.pid

    async def registered_anew() -> bool:
        return status.pid != pid and await registered()

    took_s = await eventually(registered_anew)
    assert status.restarts == 1
    assert status.exit_code == -signal.SIGKILL
    assert status.address == address, "clients keep their bootstrap address"
    assert took_s < 8, "the lease was not revoked: it ran out"
    await caller.close()


async def test_killed_etcd_comes_back_and_the_cluster_with_it(cluster) -> None:
    caller = GrpcCaller(SystemClock())
    pid = cluster.kill("etcd", 0)

    async def working() -> bool:
        request = admin_pb2.CreateTopicsRequest(
            topics=[admin_pb2.NewTopic(name="after", partitions=1)]
        )
        try:
            answer = await caller.call(methods.CREATE_TOPICS, request, to=cluster.bootstrap[0])
        except (CallFailedError, IndexError):
            return False
        return answer.topics[0].error_code in {0, 36}

    await eventually(working)
    assert cluster.status("etcd").pid not in {0, pid}
    await caller.close()


async def test_stop_leaves_no_process_and_a_second_start_finds_the_topics(tmp_path) -> None:
    caller = GrpcCaller(SystemClock())
    for run in range(2):
        cluster = cluster_on(tmp_path / "data")
        await cluster.start()
        pids = [status.pid for status in cluster.processes]
        request = admin_pb2.CreateTopicsRequest(
            topics=[admin_pb2.NewTopic(name="kept", partitions=1)]
        )
        answer = await caller.call(methods.CREATE_TOPICS, request, to=cluster.bootstrap[0])
        assert answer.topics[0].error_code == (36 if run else 0)
        await cluster.stop()
        assert not any(alive(pid) for pid in pids)
        assert {status.state for status in cluster.processes} == {ProcessState.STOPPED}
        assert {status.exit_code for status in cluster.processes if status.role != "etcd"} == {0}
    await caller.close()


async def test_a_second_cluster_on_the_same_directory_is_refused(cluster) -> None:
    other = cluster_on(cluster.directory)
    with pytest.raises(StartError, match="in use by another cluster") as caught:
        await other.start()
    assert caught.value.code is ExitCode.DIRECTORY_IN_USE
    assert all(status.state is ProcessState.READY for status in cluster.processes)


@pytest.mark.parametrize("existed", [False, True])
async def test_a_fixed_port_in_use_ends_the_start_and_leaves_nothing_behind(tmp_path, existed):
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    directory = tmp_path / "data"
    if existed:
        directory.mkdir()
    cluster = LocalCluster(
        ServeSettings(data_directory=directory), UpSettings(base_port=port), clock=SystemClock()
    )
    # Which of the ports that follow are taken, too, is others' affair.
    sentence = rf"127.0.0.1:\d+.*in use.*base_port = {port}; 0 takes free ones"
    async with server:
        with pytest.raises(StartError, match=sentence) as caught:
            await cluster.start()
    assert caught.value.code is ExitCode.PORT_IN_USE
    assert not any(status.pid for status in cluster.processes)
    assert list(tmp_path.rglob("*")) == ([directory] if existed else [])


def up_command(directory: Path) -> list[str]:
    return [
        sys.executable, "-m", "sharemesh.cli", "up", "--plain", "--base-port=0",
        f"--data-directory={directory}", "--group-shards=2", "--state-shards=2",
    ]  # fmt: skip


@pytest.fixture
def launch():
    """Start ``up`` in a process that does not outlive the test; its children die with it."""
    launched = []

    def start(directory: Path) -> subprocess.Popen[str]:
        command = up_command(directory)
        launched.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return launched[-1]

    yield start
    for process in launched:
        process.kill()
        with process:  # closes its streams and waits
            pass


def ready_pids(process: subprocess.Popen[str], directory: Path) -> list[int]:
    for line in process.stdout:
        if line.startswith("ready "):
            run = json.loads((directory / "run" / "cluster.json").read_text())
            return [each["pid"] for each in run["processes"]]
    raise AssertionError(f"up ended with {process.wait()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_everything_and_leaves_no_process(tmp_path, number, launch) -> None:
    process = launch(tmp_path)
    pids = ready_pids(process, tmp_path)
    assert len(pids) == 9
    assert all(alive(pid) for pid in pids)
    process.send_signal(number)
    out, _ = process.communicate(timeout=40)
    assert process.returncode == 0
    assert out.strip().endswith("stopped")
    assert not any(alive(pid) for pid in pids)


def test_a_second_ctrl_c_does_not_wait_for_a_process_that_hangs(tmp_path, launch) -> None:
    process = launch(tmp_path)
    pids = ready_pids(process, tmp_path)
    run = json.loads((tmp_path / "run" / "cluster.json").read_text())
    hung = next(each["pid"] for each in run["processes"] if each["role"] == "share-leader")
    os.kill(hung, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    assert any(line.startswith("stopping;") for line in process.stdout)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=15)
    assert time.monotonic() - began < 8
    assert process.returncode == 0
    assert not any(alive(pid) for pid in pids)


def test_killing_the_supervisor_leaves_no_process(tmp_path, launch) -> None:
    process = launch(tmp_path)
    pids = ready_pids(process, tmp_path)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "children outlived their parent"
        time.sleep(0.05)


async def test_given_etcd_is_used_and_none_is_started(tmp_path) -> None:
    etcd = EtcdServer(tmp_path / "etcd")
    await etcd.start()
    serve = ServeSettings(
        data_directory=tmp_path / "data",
        etcd_endpoints=(etcd.endpoint,),
        configs={"group.share.max.size": "7"},
    )
    cluster = LocalCluster(serve, UpSettings(base_port=0), clock=SystemClock())
    await cluster.start()
    assert cluster.etcd_endpoints == (etcd.endpoint,)
    assert "etcd" not in {status.role for status in cluster.processes}
    caller = GrpcCaller(SystemClock())
    resource = admin_pb2.ConfigResource(type=admin_pb2.CONFIG_RESOURCE_TYPE_CLUSTER)
    answer = await caller.call(
        methods.DESCRIBE_CONFIGS,
        admin_pb2.DescribeConfigsRequest(resources=[resource]),
        to=cluster.bootstrap[0],
    )
    values = {entry.name: entry.value for entry in answer.results[0].configs}
    assert values["group.share.max.size"] == "7"
    await caller.close()
    await cluster.stop()
    etcd.stop()


async def test_given_etcd_that_does_not_answer_ends_the_start(tmp_path) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    serve = ServeSettings(data_directory=tmp_path, etcd_endpoints=(endpoint,))
    cluster = LocalCluster(serve, UpSettings(base_port=0), clock=SystemClock())
    with pytest.raises(StartError, match=f"{endpoint} does not answer") as caught:
        await cluster.start()
    assert caught.value.code is ExitCode.COORDINATION_UNREACHABLE
    assert not cluster.processes
