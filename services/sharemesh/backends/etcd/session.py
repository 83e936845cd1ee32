"""One etcd lease, kept alive over broken and stuck streams."""

import asyncio

import grpc
import grpc.aio
from aetcd import rpc

from sharemesh.backends.etcd.connection import EtcdConnection, EtcdMessage, EtcdRefusedError
from sharemesh.backends.leases import LeaseSession
from sharemesh.ports.coordination import CoordinationError
from sharemesh.tasks import cancel_and_wait

WATCHDOG_STEP_MS = 250
REVOKE_TIMEOUT_MS = 1_000


class EtcdSession(LeaseSession):
    """A granted lease; made by ``open_session``."""

    def __init__(
        self, connection: EtcdConnection, *, lease_id: int, ttl_ms: int, sent_ms: int
    ) -> None:
        self._connection = connection
        super().__init__(
            connection.clock,
            lease_id=lease_id,
            ttl_ms=ttl_ms,
            sent_ms=sent_ms,
            watchdog_step_ms=WATCHDOG_STEP_MS,
        )

    async def close(self) -> None:
        """Stop and revoke; if etcd is unavailable the lease expires."""
        self.mark_lost("closed")
        await cancel_and_wait(*self._tasks)
        try:
            await revoke(self._connection, self._lease_id, attempts=1)
        except CoordinationError:
            return  # best effort: the time to live does the same, later

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
                await self._clock.sleep_ms(backoff.next_ms())

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
        self._confirmed(sent_ms, answer.TTL * 1_000)
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
