"""API servers that the contract suite runs on: the stand-in, and a real one by KUBECONFIG."""

import contextlib
import os
import uuid
from pathlib import Path

import aiohttp

from sharemesh_operator.cluster.credentials import ApiServer as Address
from sharemesh_operator.cluster.credentials import find_api_server
from sharemesh_operator.cluster.kube import Kube
from tests.operator.standin.server import ApiServer


class World:
    """One namespace of an API server."""

    def __init__(self, address, kube, namespace):
        self.address, self.kube, self.namespace = address, kube, namespace

    @contextlib.asynccontextmanager
    async def call(self, method, path, **more):
        """Send a request as it is; ``path`` may hold {ns}."""
        connector = aiohttp.TCPConnector(ssl=self.address.ssl_context() or True)
        url = self.address.url + path.replace("{ns}", self.namespace)
        token = self.address.token()
        headers = {**more.pop("headers", {})}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        async with (
            aiohttp.ClientSession(connector=connector) as http,
            http.request(method, url, headers=headers, **more) as answer,
        ):
            yield answer


@contextlib.asynccontextmanager
async def standin_world(_):
    async with ApiServer() as server, Kube(Address(server.url), "here") as kube:
        world = World(Address(server.url), kube, "here")
        world.server = server
        yield world


@contextlib.asynccontextmanager
async def real_world(scratch: Path):
    if not os.environ.get("KUBECONFIG"):
        raise RuntimeError("these tests need a Kubernetes cluster: set KUBECONFIG")
    address = find_api_server(None, os.environ, scratch)
    namespace = f"contract-{uuid.uuid4().hex[:8]}"
    async with Kube(address, namespace) as kube:
        world = World(address, kube, namespace)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        async with world.call("POST", "/api/v1/namespaces", json=body) as answer:
            assert answer.status == 201, await answer.text()
        try:
            yield world
        finally:
            async with world.call("DELETE", "/api/v1/namespaces/{ns}"):
                pass
