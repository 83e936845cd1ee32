"""Reading ranges and following changes, over breaks, compaction and a restored etcd."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc
import grpc.aio
from aetcd import rpc

from sharemesh.backends.etcd.connection import (
    Endpoint,
    EtcdConnection,
    EtcdMessage,
    EtcdRefusedError,
)
from sharemesh.ports.coordination import CoordinationError, KeyValue, RangeSnapshot, WatchEvent

PAGE_KEYS = 2_000
COMPACTED = "required revision has been compacted"
FORBIDDEN = "permission denied"
OPEN_TIMEOUT_S = 5.0
REFUSALS_MAX = 6  # in a row: etcd says the same of a token that it has forgotten


def range_end(prefix: str) -> bytes:
    """Return the end (exclusive) of all keys that begin with the prefix."""
    raw = prefix.encode()
    return raw[:-1] + bytes([raw[-1] + 1])  # the text is UTF-8, so its last byte is never 0xff


def to_key_value(stored: EtcdMessage) -> KeyValue:
    """Return etcd's key-value in our words."""
    return KeyValue(
        key=stored.key.decode(),
        value=stored.value,
        create_revision=stored.create_revision,
        mod_revision=stored.mod_revision,
        version=stored.version,
        lease_id=stored.lease,
    )


async def read_key(connection: EtcdConnection, key: str) -> KeyValue | None:
    """Return one key, linearizable."""
    answer = await connection.call(
        lambda endpoint: endpoint.kv.Range, rpc.RangeRequest(key=key.encode())
    )
    return to_key_value(answer.kvs[0]) if answer.kvs else None


async def read_prefix(connection: EtcdConnection, prefix: str) -> RangeSnapshot:
    """Return all keys of a prefix at one revision, read in pages."""
    while True:
        try:
            return await _read_pages(connection, prefix)
        except EtcdRefusedError as error:
            if COMPACTED not in error.details:
                raise  # else the pages' revision went away meanwhile: read again at a newer one


async def _read_pages(connection: EtcdConnection, prefix: str) -> RangeSnapshot:
    start, end, revision = prefix.encode(), range_end(prefix), 0
    entries: list[KeyValue] = []
    while True:
        answer = await connection.call(
            lambda endpoint: endpoint.kv.Range,
            rpc.RangeRequest(key=start, range_end=end, limit=PAGE_KEYS, revision=revision),
        )
        revision = revision or answer.header.revision
        entries.extend(to_key_value(stored) for stored in answer.kvs)
        if not answer.more:
            return RangeSnapshot(tuple(entries), revision)
        start = answer.kvs[-1].key + b"\0"


async def watch_prefix(
    connection: EtcdConnection, prefix: str
) -> AsyncGenerator[RangeSnapshot | WatchEvent, None]:
    """Yield a snapshot and then each change; another snapshot whenever history was lost.

    Raises:
        EtcdRefusedError: The server will never allow it (permission).
    """
    backoff = connection.backoff()
    while True:
        try:
            snapshot = await read_prefix(connection, prefix)
        except EtcdRefusedError:
            raise
        except CoordinationError:
            await connection.clock.sleep_ms(backoff.next_ms())
            continue
        backoff.reset()
        yield snapshot
        changes = follow(
            connection, prefix.encode(), range_end(prefix), from_revision=snapshot.revision + 1
        )
        async with aclosing(changes):
            async for event in changes:
                yield event


async def follow(
    connection: EtcdConnection, key: bytes, end: bytes, *, from_revision: int, resume: bool = True
) -> AsyncGenerator[WatchEvent, None]:
    """Yield changes from a revision on, resuming after breaks; end when history was lost.

    History is lost by compaction, or when etcd was restored from a backup: then its cluster id
    is another, its revisions start again below what we saw, or, if it has written as many since,
    the last change that we saw is not in it. Without ``resume`` the first break is the end.

    Raises:
        EtcdRefusedError: The server does not permit it, and did not some tries later.
    """
    backoff = connection.backoff()
    position = _Position(from_revision)
    refusals = 0
    while True:
        endpoint = connection.endpoint()
        stream = None
        try:
            stream = endpoint.watch.Watch(metadata=await connection.metadata())
            request = rpc.WatchCreateRequest(
                key=key,
                range_end=end,
                start_revision=position.next_revision,
                progress_notify=True,
            )
            answer = await _begin(connection, stream, request, position)
            while answer is not grpc.aio.EOF and position.take(answer):
                backoff.reset()
                refusals = 0
                for event in answer.events:
                    yield _to_event(event)
                answer = await _read_or_leave(stream, endpoint)
        except _CancelledByServerError as error:
            connection.log_in_anew()
            if FORBIDDEN in error.reason:
                refusals += 1
                if refusals == REFUSALS_MAX:
                    raise error.refusal(connection.names) from error
                await connection.clock.sleep_ms(backoff.next_ms())
                continue
        except (
            TimeoutError,
            asyncio.InvalidStateError,
            grpc.aio.AioRpcError,
            CoordinationError,
        ) as error:
            _note_failure(connection, endpoint, error)
        finally:
            if stream is not None:
                stream.cancel()
        if position.lost or not resume:
            return
        await connection.clock.sleep_ms(backoff.next_ms())


async def _begin(
    connection: EtcdConnection, stream: EtcdMessage, request: EtcdMessage, position: "_Position"
) -> EtcdMessage:
    """Send the request of a watch; return the first answer, or the end if history was lost."""
    async with asyncio.timeout(OPEN_TIMEOUT_S):
        await stream.write(rpc.WatchRequest(create_request=request))
        answer = await stream.read()
    if await _is_in_history(connection, position.newest):
        return answer
    position.lost = True
    return grpc.aio.EOF


def _note_failure(connection: EtcdConnection, endpoint: Endpoint, error: Exception) -> None:
    """Leave an endpoint that does not answer.

    Raises:
        EtcdRefusedError: It was refused, as it will be elsewhere.
    """
    if isinstance(error, EtcdRefusedError):
        raise error
    if isinstance(error, grpc.aio.AioRpcError):
        connection.stream_failed(endpoint, error)
    else:
        connection.leave(endpoint)


async def _is_in_history(connection: EtcdConnection, newest: EtcdMessage | None) -> bool:
    """Return whether etcd knows the change that we saw last, at its revision.

    Raises:
        CoordinationError: It does not answer.
    """
    if newest is None:
        return True
    stored, revision = newest.kv, newest.kv.mod_revision
    deleted = newest.type == rpc.Event.DELETE

    async def found(revision: int) -> list[EtcdMessage]:
        request = rpc.RangeRequest(key=stored.key, revision=revision)
        return list((await connection.call(lambda endpoint: endpoint.kv.Range, request)).kvs)

    try:
        now = await found(revision)
        if deleted:
            return not now and bool(await found(revision - 1))
    except EtcdRefusedError as error:
        if COMPACTED in error.details or "future revision" in error.details:
            return False  # unknown: start over
        raise
    return bool(now) and now[0].mod_revision == revision and now[0].value == stored.value


async def _read_or_leave(stream: EtcdMessage, endpoint: Endpoint) -> EtcdMessage:
    """Return the next answer, or the end of the stream when its endpoint was left."""
    read = asyncio.ensure_future(stream.read())
    left = asyncio.ensure_future(endpoint.left.wait())
    try:
        await asyncio.wait({read, left}, return_when=asyncio.FIRST_COMPLETED)
        return read.result() if read.done() else grpc.aio.EOF
    finally:
        left.cancel()
        if not read.done():
            read.cancel()
            await asyncio.gather(read, return_exceptions=True)


class _CancelledByServerError(Exception):
    """The server ended one watch of a stream, and said why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def refusal(self, names: str) -> EtcdRefusedError:
        """Return the error that says what to do."""
        text = f"etcd at {names} refused a watch: {self.reason}; check the role's key prefix"
        return EtcdRefusedError(text, self.reason)


class _Position:
    """Where a watch stands, over several streams."""

    def __init__(self, next_revision: int) -> None:
        self.next_revision = next_revision
        self.lost = False
        self.newest: EtcdMessage | None = None
        self._cluster_id: int | None = None

    def take(self, answer: EtcdMessage) -> bool:
        """Take one answer into account; return whether the stream may continue.

        Raises:
            _CancelledByServerError: The server ended the watch: no leader, a login that it has
                forgotten, no permission.
        """
        header = answer.header
        if answer.compact_revision:
            self.lost = True
            return False
        if answer.canceled:
            raise _CancelledByServerError(answer.cancel_reason)
        restored = self._cluster_id not in {None, header.cluster_id}
        self._cluster_id = header.cluster_id
        if restored or (answer.created and header.revision < self.next_revision - 1):
            self.lost = True
            return False
        if answer.events:
            # Not the header's revision: while a watch catches up, the header is ahead of it.
            self.newest = answer.events[-1]
            self.next_revision = self.newest.kv.mod_revision + 1
        elif not answer.created:
            self.next_revision = max(self.next_revision, header.revision + 1)
        return True


def _to_event(event: EtcdMessage) -> WatchEvent:
    stored = event.kv
    if event.type == rpc.Event.DELETE:
        return WatchEvent(stored.key.decode(), None, stored.mod_revision)
    return WatchEvent(stored.key.decode(), to_key_value(stored), stored.mod_revision)
