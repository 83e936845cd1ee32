"""Calls to a running cluster: what a commit needs, and the ids and names of topics.

The logs know ids of topics only, people know names; a running cluster knows both.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from sharemesh import methods
from sharemesh.domain.ids import (
    GroupId,
    SharePartitionKey,
    TopicId,
    format_key,
    format_topic_id,
    home_shard,
)
from sharemesh.methods import Method
from sharemesh.rpc.shown_token import ShownToken, TokenFileError
from sharemesh.rpc.tls import TlsError, TlsFiles, client_credentials
from sharemesh.v1 import admin_pb2, share_coordinator_pb2

Request = share_coordinator_pb2.CommitGenerationRequest
Response = share_coordinator_pb2.CommitGenerationResponse
Asked = TypeVar("Asked", bound=Message)
Answered = TypeVar("Answered", bound=Message)
_PROBES_PER_SHARD_MAX = 1_000
RUN_FILE = "run/cluster.json"
"""Where `sharemesh up` leaves the addresses of the cluster."""


class NotAnsweredError(Exception):
    """The cluster did not answer, or does not know the name."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach a cluster.

    Attributes:
        bootstrap: ``host:port`` of any process of the cluster.
        tls: None without TLS.
        headers: Metadata of every call, for example the cluster's secret.
        token_file: File with a bearer token, read at each call; None: none is shown.
    """

    bootstrap: str
    tls: TlsFiles | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    token_file: Path | None = None

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what goes with a call now.

        Raises:
            NotAnsweredError: The token file cannot be used.
        """
        if self.token_file is None:
            return self.headers
        try:
            return (*self.headers, ShownToken(self.token_file).header)
        except TokenFileError as error:
            raise NotAnsweredError(str(error)) from error


def access_of(
    bootstrap: str,
    *,
    files: Mapping[str, Path | None],
    headers: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> ClusterAccess:
    """Return the access that options and environment give; options go first.

    Args:
        bootstrap: ``host:port``.
        files: PEM files by ``authority``, ``certificate`` and ``key``; absent ones are looked for
            in ``SHAREMESH_TLS_AUTHORITY``, ``…_CERTIFICATE`` and ``…_KEY``.
        headers: ``name=value`` each; without any, the lines of ``SHAREMESH_HEADERS``.
        environment: Where variables are looked up; ``SHAREMESH_TOKEN_FILE`` names a token.

    Raises:
        NotAnsweredError: A header is not of that form, or a token would go without TLS.
    """
    found = {
        name: files.get(name) or _path(environment.get(f"SHAREMESH_TLS_{name.upper()}"))
        for name in ("authority", "certificate", "key")
    }
    tls = None
    if any(found.values()):
        tls = TlsFiles(found["certificate"], found["key"], found["authority"])
    lines = headers or environment.get("SHAREMESH_HEADERS", "").split("\n")
    pairs = tuple(_pair(line.strip()) for line in lines if line.strip())
    token_file = _path(environment.get("SHAREMESH_TOKEN_FILE"))
    if token_file is not None and tls is None:
        raise NotAnsweredError("SHAREMESH_TOKEN_FILE: a token is sent over TLS only")
    return ClusterAccess(bootstrap, tls, pairs, token_file)


class ClusterCalls:
    """Open channels to the processes of a cluster; use ``cluster_calls``."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        try:
            self._credentials = None if access.tls is None else client_credentials(access.tls)
        except TlsError as error:
            raise NotAnsweredError(str(error)) from error
        self._channels: dict[str, grpc.Channel] = {}

    def close(self) -> None:
        """Close all channels."""
        for channel in self._channels.values():
            channel.close()

    def commit(self, request: Request, *, shards: int) -> Response:
        """Send a commit to the coordinator of its shard.

        Raises:
            NotAnsweredError: The shard has no coordinator, or it did not answer.
        """
        found = self._call(
            self._access.bootstrap,
            methods.FIND_COORDINATOR,
            admin_pb2.FindCoordinatorRequest(
                key_type=admin_pb2.COORDINATOR_KEY_TYPE_SHARE,
                keys=[key_in_shard(request.shard, shards)],
            ),
        )
        [coordinator] = found.coordinators
        if coordinator.error_code:
            raise NotAnsweredError(
                f"shard {request.shard} has no coordinator: {coordinator.error_message}"
            )
        address = f"{coordinator.node.host}:{coordinator.node.port}"
        return self._call(address, methods.COMMIT_GENERATION, request)

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic.

        Raises:
            NotAnsweredError: The cluster did not answer, or has no such topic.
        """
        request = admin_pb2.DescribeTopicsRequest(names=[name])
        answer = self._call(self._access.bootstrap, methods.DESCRIBE_TOPICS, request)
        for topic in answer.topics:
            if topic.name == name and not topic.error_code:
                return bytes(topic.topic_id)
        raise NotAnsweredError(f"topic {name!r} is not known to {self._access.bootstrap}")

    def topic_names(self) -> dict[str, str]:
        """Return the names of all topics by the id that Kafka shows.

        Raises:
            NotAnsweredError: The cluster did not answer.
        """
        request = admin_pb2.DescribeTopicsRequest()
        answer = self._call(self._access.bootstrap, methods.DESCRIBE_TOPICS, request)
        return {
            format_topic_id(TopicId(bytes(topic.topic_id))): topic.name
            for topic in answer.topics
            if not topic.error_code
        }

    def _call(self, address: str, method: Method[Asked, Answered], request: Asked) -> Answered:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._opened(address)
        invoke = channel.unary_unary(
            f"/sharemesh.v1.{method.name}",
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            answer: Answered = invoke(
                request, timeout=method.deadline_ms / 1_000, metadata=self._access.metadata()
            )
        except grpc.RpcError as error:
            raise NotAnsweredError(
                f"{address} did not answer {method.name}: {error.code().name.lower()}, "
                f"{error.details()}"
            ) from error
        return answer

    def _opened(self, address: str) -> grpc.Channel:
        if self._credentials is None:
            return grpc.insecure_channel(address)
        return grpc.secure_channel(address, self._credentials)


@contextmanager
def cluster_calls(access: ClusterAccess) -> Iterator[ClusterCalls]:
    """Yield what calls a cluster, and close its channels.

    Raises:
        NotAnsweredError: A TLS file cannot be used.
    """
    calls = ClusterCalls(access)
    try:
        yield calls
    finally:
        calls.close()


def key_in_shard(shard: int, shards: int) -> str:
    """Return a key text that lives in a shard, for FindCoordinator, which takes keys only."""
    for number in range(shards * _PROBES_PER_SHARD_MAX):
        key = format_key(SharePartitionKey(GroupId("generation"), TopicId(b"\1" * 16), number))
        if home_shard(key, shards) == shard:
            return key
    raise NotAnsweredError(f"no key was found for shard {shard} of {shards}")


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _pair(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals or not name.strip():
        raise NotAnsweredError("a header is not of the form name=value (its text is not shown)")
    return name.strip().lower(), value.strip()


def topic_names(data: Path, access: ClusterAccess | None) -> dict[str, str]:
    """Return names by topic id; none if no cluster was named and that of the directory is silent.

    Raises:
        NotAnsweredError: The cluster that ``access`` names did not answer.
    """
    if access is not None:
        with cluster_calls(access) as calls:
            return calls.topic_names()
    try:
        addresses = json.loads((data / RUN_FILE).read_text(encoding="utf-8"))["bootstrap"]
        with cluster_calls(ClusterAccess(str(addresses[0]))) as calls:
            return calls.topic_names()
    except (OSError, ValueError, KeyError, TypeError, IndexError, NotAnsweredError):
        return {}


def named(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return rows with ``topic`` instead of ``topic_id``: the name where it is known."""
    return [
        {
            "topic" if key == "topic_id" else key: (
                names.get(value, value) if key == "topic_id" else value
            )
            for key, value in row.items()
        }
        for row in rows
    ]
