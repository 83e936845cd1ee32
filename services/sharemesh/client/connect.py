"""The client's composition root: chooses gRPC, the machine's clock and chance."""

import random
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.admin import AdminClient
from sharemesh.client.async_admin import AsyncAdminClient
from sharemesh.client.async_consumer import AsyncShareConsumer
from sharemesh.client.async_producer import AsyncProducer
from sharemesh.client.config import ClientConfig
from sharemesh.client.environment import Environment
from sharemesh.client.errors import ConfigError
from sharemesh.client.producer import Producer
from sharemesh.client.share_consumer import ShareConsumer
from sharemesh.ports.network import Caller
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.tls import TlsError, TlsFiles

_HEADER_NAME = re.compile(r"(?!grpc-)[a-z0-9_.-]+(?<!-bin)")


def real_environment(config: ClientConfig) -> Environment:
    """Return gRPC connections, the machine's clock, and chance from the operating system.

    Raises:
        ConfigError: A certificate or key file cannot be used.
    """
    clock = SystemClock()
    tls = _tls(config)
    headers = _headers(config)
    try:
        GrpcCaller(clock, tls=tls)  # unusable files are told now, not at the first call
    except TlsError as error:
        raise ConfigError(str(error)) from error

    def open_caller() -> Caller:
        return GrpcCaller(clock, tls=tls, headers=headers)

    return Environment(open_caller, clock, random.Random(), lambda: str(uuid.uuid4()))  # noqa: S311, TID251


def _tls(config: ClientConfig) -> TlsFiles | None:
    if config.text("security.protocol") != "ssl":
        return None

    def path(name: str) -> Path | None:
        text = config.text(name)
        return Path(text) if text else None

    return TlsFiles(
        certificate=path("ssl.certificate.location"),
        key=path("ssl.key.location"),
        authority=path("ssl.ca.location"),
    )


def _headers(config: ClientConfig) -> list[tuple[str, str]]:
    headers = []
    for pair in config.text("request.headers").split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals and not name:
            continue
        if not equals or not _HEADER_NAME.fullmatch(name) or not _plain(value):
            raise ConfigError(
                f"request.headers: {name!r} is not name=value; names have lower-case letters, "
                "digits, dot, dash and underscore, values printable ASCII"
            )
        headers.append((name, value))
    token = config.text("sasl.token")
    if not _plain(token):
        raise ConfigError("sasl.token: a token is printable ASCII")
    if token:
        headers.append(("authorization", f"Bearer {token}"))
    return headers


def _plain(text: str) -> bool:
    return text.isascii() and (not text or text.isprintable())


@dataclass(frozen=True, slots=True)
class Cluster:
    """Makes clients of one cluster; ``settings`` are common to all of them."""

    settings: Mapping[str, Any]

    def share_consumer(
        self,
        group_id: str,
        topics: Sequence[str] = (),
        **config: Any,  # noqa: ANN401
    ) -> ShareConsumer:
        """Return a consumer, subscribed to ``topics`` if there are any.

        ``config`` takes Kafka's names with underscores: ``max_poll_records=100``.
        """
        consumer = ShareConsumer({**self._with(config), "group.id": group_id})
        if topics:
            consumer.subscribe(topics)
        return consumer

    def async_share_consumer(self, group_id: str, **config: Any) -> AsyncShareConsumer:  # noqa: ANN401
        """Return a consumer for asyncio."""
        return AsyncShareConsumer({**self._with(config), "group.id": group_id})

    def producer(self, **config: Any) -> Producer:  # noqa: ANN401
        """Return a producer."""
        return Producer(self._with(config))

    def async_producer(self, **config: Any) -> AsyncProducer:  # noqa: ANN401
        """Return a producer for asyncio."""
        return AsyncProducer(self._with(config))

    def admin(self, **config: Any) -> AdminClient:  # noqa: ANN401
        """Return an admin client."""
        return AdminClient(self._with(config))

    def async_admin(self, **config: Any) -> AsyncAdminClient:  # noqa: ANN401
        """Return an admin client for asyncio."""
        return AsyncAdminClient(self._with(config))

    def _with(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.settings, **{name.replace("_", "."): v for name, v in config.items()}}


def connect(bootstrap: str | Sequence[str], **config: Any) -> Cluster:  # noqa: ANN401
    """Return a maker of clients of the cluster at ``host:port`` (several: any of them is asked).

    No connection is opened yet. ``config`` holds settings common to all clients.
    """
    servers = bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap)
    return Cluster(
        {
            "bootstrap.servers": servers,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
    )
