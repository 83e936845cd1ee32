"""Commits a generation, shard by shard, through `ShareCoordinator.CommitGeneration` (DESIGN 5)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from sharemesh import methods
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.key_text import format_key, home_shard
from sharemesh.methods import Method
from sharemesh.v1 import admin_pb2, share_coordinator_pb2
from sharemesh_spark.generation_files import FOLDER, MANIFEST, Manifest, mark_committed

Request = share_coordinator_pb2.CommitGenerationRequest
Response = share_coordinator_pb2.CommitGenerationResponse
Asked = TypeVar("Asked", bound=Message)
Answered = TypeVar("Answered", bound=Message)
Commit = Callable[[Request], Response]
_PROBES_PER_SHARD_MAX = 1_000


class NotCommittedError(Exception):
    """A coordinator refused the generation or could not be asked; the older one stays valid."""


def commit(
    data: Path, manifest: Manifest, ask: Commit, *, history: Mapping[int, int] | None = None
) -> list[int]:
    """Commit every shard that holds anything, in order, and return which ones those are.

    The first shard decides between two jobs at once: the second one is refused there and stops,
    so that generations do not interleave.

    Args:
        data: The data directory.
        manifest: Of a generation that is published and proven.
        ask: Sends a request to the coordinator of its shard.
        history: How far the history table has come, by shard; shards left out have none.

    Raises:
        NotCommittedError: The message says what the coordinator said.
    """
    done: list[int] = []
    for shard in manifest.shards:
        if shard.end_offset == 0:
            continue
        request = Request(
            shard=shard.shard,
            generation_id=manifest.generation_id,
            previous_generation_id=shard.previous_generation_id,
            end_offset=shard.end_offset,
            path=f"{FOLDER}/{manifest.generation_id}/{MANIFEST}",
            content_hash=bytes.fromhex(shard.content_hash),
            format_version=manifest.format_version,
        )
        if history is not None and shard.shard in history:
            request.history_end_offset = history[shard.shard]
        answer = ask(request)
        if answer.error_code:
            raise NotCommittedError(
                f"shard {shard.shard}: {answer.error_message} (error {answer.error_code}); "
                f"shards {done or 'none'} were committed before"
            )
        done.append(shard.shard)
    if done:
        mark_committed(data, manifest.generation_id)
    return done


@contextmanager
def coordinators(bootstrap: str, shards: int) -> Iterator[Commit]:
    """Yield what sends requests to the share coordinators of a cluster.

    Args:
        bootstrap: ``host:port`` of any process of the cluster.
        shards: How many shards the share state log has.
    """
    channels: dict[str, grpc.Channel] = {}

    def call(address: str, method: Method[Asked, Answered], request: Asked) -> Answered:
        channel = channels.get(address)
        if channel is None:
            channel = channels[address] = grpc.insecure_channel(address)
        invoke = channel.unary_unary(
            f"/sharemesh.v1.{method.name}",
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            answer: Answered = invoke(request, timeout=method.deadline_ms / 1_000)
        except grpc.RpcError as error:
            raise NotCommittedError(f"{address} did not answer {method.name}: {error}") from error
        return answer

    def ask(request: Request) -> Response:
        key = keys[request.shard]
        found = call(
            bootstrap,
            methods.FIND_COORDINATOR,
            admin_pb2.FindCoordinatorRequest(
                key_type=admin_pb2.COORDINATOR_KEY_TYPE_SHARE, keys=[key]
            ),
        )
        [coordinator] = found.coordinators
        if coordinator.error_code:
            raise NotCommittedError(
                f"shard {request.shard} has no coordinator: {coordinator.error_message}"
            )
        address = f"{coordinator.node.host}:{coordinator.node.port}"
        return call(address, methods.COMMIT_GENERATION, request)

    keys = _keys_of_shards(shards)
    try:
        yield ask
    finally:
        for channel in channels.values():
            channel.close()


def topic_id(bootstrap: str, name: str) -> bytes:
    """Return the id of a topic.

    Raises:
        NotCommittedError: The cluster did not answer, or has no such topic.
    """
    with grpc.insecure_channel(bootstrap) as channel:
        method = methods.DESCRIBE_TOPICS
        invoke = channel.unary_unary(
            f"/sharemesh.v1.{method.name}",
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        request = admin_pb2.DescribeTopicsRequest(names=[name])
        try:
            answer = invoke(request, timeout=method.deadline_ms / 1_000)
        except grpc.RpcError as error:
            raise NotCommittedError(f"{bootstrap} did not answer: {error}") from error
    for topic in answer.topics:
        if topic.name == name and not topic.error_code:
            return bytes(topic.topic_id)
    raise NotCommittedError(f"topic {name!r} is not known to {bootstrap}")


def _keys_of_shards(shards: int) -> dict[int, str]:
    """Return a key text that lives in each shard, for FindCoordinator, which takes keys only."""
    keys: dict[int, str] = {}
    for number in range(shards * _PROBES_PER_SHARD_MAX):
        key = format_key(SharePartitionKey(GroupId("generation"), TopicId(b"\1" * 16), number))
        keys.setdefault(home_shard(key, shards), key)
        if len(keys) == shards:
            break
    return keys
