"""A mesh in memory behind a real listener on a free port, and clients that speak in bytes."""

import asyncio
import contextlib
import io
import itertools
import struct
from dataclasses import replace
from random import Random

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from sharemesh.authorization.access import Access
from sharemesh.client import AsyncAdminClient
from sharemesh.cluster.user_table import UserTable
from sharemesh.domain.ids import NodeId
from sharemesh.kafka.messages import entity_of, error_code, milliseconds
from sharemesh.kafka.security import SaslMechanism
from sharemesh.kafka_listener.answers import KafkaAnswers
from sharemesh.kafka_listener.cluster_answers import ClusterAnswers
from sharemesh.kafka_listener.config_answers import ConfigAnswers
from sharemesh.kafka_listener.group_config_calls import GroupConfigCalls
from sharemesh.kafka_listener.limits import KafkaListenerLimits
from sharemesh.kafka_listener.listener import KafkaListener
from sharemesh.kafka_listener.login.logins import Logins
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.ports.cluster import KafkaEndpoint
from sharemesh.telemetry.instruments import Registry
from sharemesh.testing import Mesh

EARLIEST = {"share.auto.offset.reset": "earliest"}
NO_ERROR = error_code(0)
NOTHING_MS = milliseconds(0)


class ListeningView:
    """The view of a process whose registration tells the listener."""

    def __init__(self, view):
        self._view = view
        self.endpoints = {}

    def __getattr__(self, name):
        return getattr(self._view, name)

    def nodes(self):
        return tuple(
            replace(each, kafka=self.endpoints.get(str(each.node_id)))
            for each in self._view.nodes()
        )


class ListeningMesh:
    """One process of every role with a listener; ``mesh`` has gRPC's clients of it."""

    def __init__(
        self,
        *,
        mechanisms=(),
        tokens=None,
        tls=None,
        session_ms=0,
        super_users=None,
        secret=b"of the cluster",
        **limits,
    ):
        self.super_users = super_users
        self.secret = secret
        self.mechanisms = [SaslMechanism(each) for each in mechanisms]
        self.tokens = tokens
        self.tls = tls
        self.session_ms = session_ms
        self.limits = KafkaListenerLimits(**limits)
        self.registry = Registry()

    async def __aenter__(self):
        self.mesh = await Mesh(super_users=self.super_users).__aenter__()
        [node] = self.mesh.nodes
        host = self.mesh.network.host("", node.address)
        handlers = OfferedHandlers()
        handlers._unary, handlers._streams = host.unary, host.streams
        self.view = ListeningView(node.view)
        self.node_id = node.name
        caller = self.mesh.network.caller()
        access = Access(node.authorizer)
        node_id = NodeId(node.name)
        elsewhere = OfferedHandlers()
        self.group_calls = GroupConfigCalls(handlers, elsewhere, self.view, node_id, caller, access)
        self.group_calls.offer(elsewhere)
        configs = ConfigAnswers(handlers, self.view, self.group_calls)
        clusters = ClusterAnswers(handlers, self.view, access, self.mesh.clock)
        answers = self.answers = KafkaAnswers(
            handlers, self.view, node_id, self.registry, configs, clusters
        )
        self.logins = Logins(
            self.mechanisms,
            UserTable(node.view),
            self.tokens,
            self.mesh.clock,
            Random(7),
            self.registry,
            session_ms=self.session_ms,
        )
        self.logins.open(self.secret)
        self.refused = []
        self.listener = KafkaListener(
            answers,
            self.mesh.clock,
            self.limits,
            self.registry,
            self.logins,
            tls=self.tls,
            on_refused=lambda *told: self.refused.append(told),
        )
        self.port = await self.listener.start("127.0.0.1", 0)
        self.view.endpoints[node.name] = KafkaEndpoint(7, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *error):
        await self.listener.stop()
        for role in self.mesh.nodes[0].roles._services:
            tasks = getattr(getattr(role, "_service", None), "_tasks", None)
            if tasks is not None:
                await tasks.settle()  # what ended sessions give back is written while it can be
        await self.mesh.__aexit__(*error)

    def admin(self):
        """Return an admin client that may do everything."""
        who = self.super_users[0] if self.super_users else "User:ANONYMOUS"
        admin = AsyncAdminClient(
            {"bootstrap.servers": self.mesh.nodes[0].address},
            environment=self.mesh.environment(who),
        )
        self.mesh._clients.append(admin)
        return admin

    def connect(self, tls=None):
        return WireClient(self.port, tls)

    async def until(self, condition):
        """Return once something holds, which real sockets bring about."""
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.001)

    def counted(self, metric):
        """Return the values of a metric by their labels."""
        return {
            labels: value
            for reading in self.registry.collect()
            if reading.metric is metric
            for labels, value in reading.values
        }


class WireClient:
    """One connection; ``ask`` sends a request and returns its answer."""

    def __init__(self, port, tls=None):
        self.port = port
        self._tls = tls
        self._correlations = itertools.count(1)

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self._tls
        )
        return self

    async def __aexit__(self, *_):
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def ask(self, key, version, /, **content):
        correlation = self.send(key, version, **content)
        return await self.answer(key, version, correlation)

    def send(self, key, version, /, **content):
        correlation = next(self._correlations)
        self.writer.write(request_frame(key, version, correlation, content))
        return correlation

    async def answer(self, key, version, correlation):
        return read_answer(key, version, await self.frame(), correlation)

    async def frame(self):
        """Return the next frame without its size."""
        async with asyncio.timeout(20):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def is_closed(self):
        """Return True once the other side has closed, without another byte."""
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError):
                assert await self.reader.read(1) == b""
        return True


def request_frame(key, version, correlation, content, client_id="test"):
    cls = load_request_schema(key, version)
    header = cls.__header_schema__
    out = io.BytesIO()
    head = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": correlation,
        "client_id": client_id,
    }
    entity_writer(header)(out, entity_of(header, head))
    entity_writer(cls)(out, entity_of(cls, content))
    return struct.pack(">i", len(out.getvalue())) + out.getvalue()


def read_answer(key, version, frame, correlation):
    """Return an answer that nothing is left of."""
    cls = load_response_schema(key, version)
    header, size = entity_reader(cls.__header_schema__)(frame, 0)
    assert header.correlation_id == correlation
    message, used = entity_reader(cls)(frame, size)
    assert size + used == len(frame)
    return message
