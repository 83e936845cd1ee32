"""API servers that the contract suite runs on: the stand-in, and a real one by KUBECONFIG."""

import contextlib
import os
import uuid

import aiohttp

from sharemesh_operator.cluster.kube import Kube, find_login
from tests.operator.fake_apiserver.server import ApiServer


class World:
    """One namespace of an API server."""

    def __init__(self, login, kube, namespace):
        self.login, self.kube, self.namespace = login, kube, namespace

    @contextlib.asynccontextmanager
    async def call(self, method, path, **more):
        """Send a request as it is; ``path`` may hold {ns}."""
        login = self.login()
        connector = aiohttp.TCPConnector(ssl=login.as_ssl_context())
        url = login.server + path.replace("{ns}", self.namespace)
        headers = {**more.pop("headers", {}), **login.as_http_headers()}
        async with (
            aiohttp.ClientSession(connector=connector) as http,
            http.request(method, url, headers=headers, **more) as answer,
        ):
            yield answer


@contextlib.asynccontextmanager
async def standin_world():
    async with ApiServer() as server, Kube(server.login, "here") as kube:
        world = World(server.login, kube, "here")
        world.server = server
        yield world


@contextlib.asynccontextmanager
async def real_world():
    if not os.environ.get("KUBECONFIG"):
        raise RuntimeError("these tests need a Kubernetes cluster: set KUBECONFIG")
    login = find_login(None, os.environ)
    namespace = f"contract-{uuid.uuid4().hex[:8]}"
    async with Kube(login, namespace) as kube:
        world = World(login, kube, namespace)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        async with world.call("POST", "/api/v1/namespaces", json=body) as answer:
            assert answer.status == 201, await answer.text()
        try:
            yield world
        finally:
            async with world.call("DELETE", "/api/v1/namespaces/{ns}"):
                pass
