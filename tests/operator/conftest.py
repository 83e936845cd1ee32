"""A whole operator in this process: the API-server stand-in, real etcd, kopf, pods that serve."""

import asyncio
import contextlib
import gc
import warnings

import pytest
import yaml

from sharemesh_operator.cluster.kube import Kube
from sharemesh_operator.operator_process import OperatorProcess, Standing
from sharemesh_operator.resources.conditions import find
from sharemesh_operator.settings import OperatorSettings
from tests.etcd_server import EtcdServer
from tests.operator.fake_apiserver.node import Node
from tests.operator.fake_apiserver.server import ApiServer

NAMESPACE = "queues"
DEADLINE_S = 40


def collect_sessions_of_kopf():
    """Let go of sessions that kopf opened once more while it stopped: else a later test fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Land:
    """A namespace with an operator in it."""

    def __init__(self, server, kube, node, etcd, directory):
        self.server, self.kube, self.node = server, kube, node
        self.etcd, self.directory = etcd, directory
        self._running = []

    def settings(self, identity="op-0", **more):
        kubeconfig = self.directory / "kubeconfig"
        named = {"name": "here"}
        kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "current-context": "here",
                    "contexts": [{**named, "context": {"cluster": "here", "user": "here"}}],
                    "clusters": [{**named, "cluster": {"server": self.server.url}}],
                    "users": [{**named, "user": {}}],
                }
            )
        )
        return OperatorSettings(
            namespace=NAMESPACE,
            identity=identity,
            etcd_endpoints=(f"http://{self.etcd.endpoint}",),
            image="localhost/sharemesh:0.1.0",
            session_ttl_ms=3_000,
            secrets_directory=self.directory / "secrets",
            kubeconfig=kubeconfig,
            listen_host="127.0.0.1",
            health_port=0,
            metrics_port=0,
            **more,
        )

    async def start_operator(self, identity="op-0", **more):
        process = OperatorProcess(self.settings(identity, **more), {})
        task = asyncio.create_task(process.run())
        self._running.append((process, task))
        return process

    async def stop_operator(self, process):
        task = next(task for each, task in self._running if each is process)
        process.stop()
        await task

    async def close(self):
        while self._running:
            process, task = self._running.pop(0)
            process.stop()
            await asyncio.gather(task, return_exceptions=True)
        collect_sessions_of_kopf()

    async def apply(self, kind, name, spec, **meta):
        body = {
            "apiVersion": "sharemesh.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, **meta},
            "spec": spec,
        }
        return await self.kube.apply(body)

    async def cluster(self, name="main", **spec):
        return await self.apply(
            "ShareCluster",
            name,
            {
                "etcd": {"endpoints": [f"http://{self.etcd.endpoint}"], "sessionTTLSeconds": 5},
                "storage": {"type": "SingleNode", "node": "one", "hostPath": "/data/main"},
                "shareLeaders": {"replicas": 2, "drainTimeoutSeconds": 10},
                "groupCoordinators": {"replicas": 1, "shards": 2},
                "shareCoordinators": {"replicas": 1, "shards": 2},
                **spec,
            },
        )

    async def topic(self, name="orders", partitions=2, **spec):
        ref = {"name": spec.pop("cluster", "main")}
        return await self.apply(
            "ShareTopic", name, {"clusterRef": ref, "partitions": partitions, **spec}
        )

    async def group(self, name="billing", topics=("orders",), **spec):
        ref = {"name": spec.pop("cluster", "main")}
        wanted = [{"name": topic} for topic in topics]
        return await self.apply("ShareGroup", name, {"clusterRef": ref, "topics": wanted, **spec})

    async def until(self, ask, what=""):
        """Poll until ``ask`` returns something true, and return it."""
        found = None
        try:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    found = await ask()
                    if found:
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{what or ask} did not happen in {DEADLINE_S} s") from None

    async def condition(self, kind, name, wanted, reason, condition="Ready"):
        """Poll until a condition has this status and reason, and return it."""
        last = None

        async def holds():
            nonlocal last
            body = await self.kube.get(kind, name)
            conditions = ((body or {}).get("status") or {}).get("conditions") or ()
            last = find(conditions, condition)
            fits = last and (last["status"], last["reason"]) == (wanted, reason)
            return last if fits else None

        try:
            return await self.until(holds)
        except AssertionError:
            raise AssertionError(
                f"{kind} {name}: {condition} is {last}, not {(wanted, reason)}"
            ) from None

    async def events(self, reason):
        found = await self.kube.list("Event")
        return [each["message"] for each in found if each["reason"] == reason]

    async def pods(self):
        return {pod["metadata"]["name"] for pod in await self.kube.list("Pod")}

    async def leading(self, process):
        async def leads():
            return process.standing() is Standing.LEADING

        await self.until(leads, "leading")


@pytest.fixture
async def land(tmp_path):
    etcd = EtcdServer(tmp_path / "etcd")
    (tmp_path / "data").mkdir()
    async with contextlib.AsyncExitStack() as stack:
        await etcd.start()
        stack.callback(etcd.stop)
        server = await stack.enter_async_context(ApiServer())
        kube = await stack.enter_async_context(Kube(server.login, NAMESPACE, agent="test"))
        node = await stack.enter_async_context(Node(server, tmp_path))
        found = Land(server, kube, node, etcd, tmp_path)
        stack.push_async_callback(found.close)
        yield found
