"""One etcd lease, kept alive, and never believed in for longer than the server can keep it.

A lease counts as valid until (time at which the last confirmed keep-alive was *sent*) + TTL -
margin, on the monotonic clock. The watchdog is a task of its own: it steps down even when the
keep-alive is stuck.
"""

import asyncio

import grpc
import grpc.aio
from aetcd import rpc

from sharemesh.backends.etcd.connection import EtcdConnection, EtcdMessage, EtcdRefusedError
from sharemesh.ports.coordination import CoordinationError
from sharemesh.tasks import cancel_and_wait

MARGIN_MIN_MS = 1_000
WATCHDOG_STEP_MS = 250
REVOKE_TIMEOUT_MS = 1_000


def margin_ms(ttl_ms: int) -> int:
    """Return how long before the lease can end we stop: covers clock rates 20 % apart."""
    return max(MARGIN_MIN_MS, ttl_ms // 5)


class EtcdSession:
    """A granted lease; made by ``open_session``."""

    def __init__(
        self, connection: EtcdConnection, *, lease_id: int, ttl_ms: int, sent_ms: int
    ) -> None:
        self._connection = connection
        self._clock = connection.clock
        self._lease_id = lease_id
        self._ttl_ms = ttl_ms
        self._valid_until_ms = sent_ms + ttl_ms - margin_ms(ttl_ms)
        self._lost = asyncio.Event()
        self.why_lost = ""
        self._tasks = [
            asyncio.create_task(self._keep_alive(), name=f"keep-alive {lease_id:x}"),
            asyncio.create_task(self._watch_deadline(), name=f"session watchdog {lease_id:x}"),
        ]

    @property
    def lease_id(self) -> int:
        """The id that a parent may revoke."""
        return self._lease_id

    @property
    def valid(self) -> bool:
        """Whether work under this lease may go on now."""
        return not self._lost.is_set() and self._clock.now_ms() < self._valid_until_ms

    @property
    def trusted_ms(self) -> int:
        """For how long work may go on if no keep-alive is confirmed any more; 0: no longer."""
        left_ms = self._valid_until_ms - self._clock.now_ms()
        return 0 if self._lost.is_set() else max(0, left_ms)

    async def lost(self) -> None:
        """Return when the lease is lost or can no longer be trusted."""
        await self._lost.wait()

    async def close(self) -> None:
        """Stop and revoke; if etcd is away the lease ends by itself."""
        self.mark_lost("closed")
        await cancel_and_wait(*self._tasks)
        try:
            await revoke(self._connection, self._lease_id, attempts=1)
        except CoordinationError:
            return  # best effort: the time to live does the same, later

    def mark_lost(self, why: str) -> None:
        """Believe no longer in the lease."""
        if not self._lost.is_set():
            self.why_lost = why
            self._lost.set()

    async def _watch_deadline(self) -> None:
        while not self._lost.is_set():
            left_ms = self._valid_until_ms - self._clock.now_ms()
            if left_ms <= 0:
                self.mark_lost("no keep-alive was confirmed in time")
                return
            await self._clock.sleep_ms(min(left_ms, WATCHDOG_STEP_MS))

    async def _keep_alive(self) -> None:
        backoff = self._connection.backoff()
        while not self._lost.is_set():
            endpoint = self._connection.endpoint()
            stream = None
            try:
                stream = endpoint.lease.LeaseKeepAlive(metadata=await self._connection.metadata())
                while await self._renew(stream):
                    backoff.reset()
            except (TimeoutError, asyncio.InvalidStateError):
                self._connection.leave(endpoint)  # a stuck stream is torn down, not waited for
            except grpc.aio.AioRpcError as error:
                try:
                    self._connection.stream_failed(endpoint, error)
                except EtcdRefusedError as refused:
                    self.mark_lost(str(refused))
            finally:
                if stream is not None:
                    stream.cancel()
            if not self._lost.is_set():
                await backoff.wait()

    async def _renew(self, stream: EtcdMessage) -> bool:
        """Send one keep-alive, wait for its answer and until the next is due."""
        every_ms = self._ttl_ms // 3
        sent_ms = self._clock.now_ms()
        async with asyncio.timeout(every_ms / 1_000):
            await stream.write(rpc.LeaseKeepAliveRequest(ID=self._lease_id))
            answer = await stream.read()
        if answer is grpc.aio.EOF:
            return False
        if answer.TTL <= 0:
            self.mark_lost("etcd has ended the lease")
            return False
        self._valid_until_ms = sent_ms + answer.TTL * 1_000 - margin_ms(answer.TTL * 1_000)
        await self._clock.sleep_ms(max(0, sent_ms + every_ms - self._clock.now_ms()))
        return not self._lost.is_set()


async def open_session(connection: EtcdConnection, *, ttl_ms: int) -> EtcdSession:
    """Grant a lease.

    The id is chosen here, so that a repeated grant is recognised as ours.

    ``ttl_ms`` is rounded up to whole seconds; etcd raises less than about 2 s to its minimum.

    Raises:
        CoordinationError: etcd does not answer or refuses.
    """
    lease_id = connection.random_bits(62) | 1
    seconds = -(-ttl_ms // 1_000)
    sent_ms = connection.clock.now_ms()
    try:
        answer = await connection.call(
            lambda endpoint: endpoint.lease.LeaseGrant,
            rpc.LeaseGrantRequest(TTL=seconds, ID=lease_id),
        )
        granted_ms = answer.TTL * 1_000
    except EtcdRefusedError as error:
        if "lease already exists" not in error.details:
            raise
        granted_ms = seconds * 1_000
    return EtcdSession(connection, lease_id=lease_id, ttl_ms=granted_ms, sent_ms=sent_ms)


async def revoke(connection: EtcdConnection, lease_id: int, *, attempts: int = 3) -> None:
    """End a lease; one that is gone already is fine."""
    try:
        await connection.call(
            lambda endpoint: endpoint.lease.LeaseRevoke,
            rpc.LeaseRevokeRequest(ID=lease_id),
            attempts=attempts,
            timeout_ms=REVOKE_TIMEOUT_MS,
        )
    except EtcdRefusedError as error:
        if "lease not found" not in error.details:
            raise
