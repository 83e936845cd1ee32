"""Guarded transactions whose unknown outcome is read back."""

from collections.abc import Sequence

from aetcd import rpc

from sharemesh.backends.etcd.connection import EtcdConnection, EtcdMessage, EtcdRefusedError
from sharemesh.backends.etcd.watch import range_end
from sharemesh.ports.coordination import CoordinationError, Delete, Guard, Put

COMMIT_ATTEMPTS = 4


class Transaction:
    """One set of guards and operations, and what became of it."""

    def __init__(
        self,
        connection: EtcdConnection,
        guards: Sequence[Guard],
        operations: Sequence[Put | Delete],
        lease_id: int,
    ) -> None:
        self._connection = connection
        self._operations = operations
        self._lease_id = lease_id
        self._request = rpc.TxnRequest(
            compare=[_compare(guard) for guard in guards],
            success=[self._operation(operation) for operation in operations],
        )

    async def run(self) -> int | None:
        """Return the revision at which it was applied, or None if a guard does not hold.

        Repeating is safe: the guards refuse a second application, or there are none and the
        operations are the same. After a broken attempt a refusal may be our own doing, so the
        keys are read back before it is believed.

        Raises:
            CoordinationError: No answer, and the keys could not be read back either.
        """
        backoff = self._connection.backoff()
        unknown: CoordinationError | None = None
        for _ in range(COMMIT_ATTEMPTS):
            try:
                answer = await self._connection.call(
                    lambda endpoint: endpoint.kv.Txn, self._request, attempts=1
                )
            except EtcdRefusedError:
                raise
            except CoordinationError as error:
                unknown = error
                await backoff.wait()
                continue
            if answer.succeeded:
                return int(answer.header.revision)
            return None if unknown is None else await self._read_back()
        assert unknown is not None
        applied = await self._read_back()
        if applied is None:
            raise CoordinationError(f"the outcome of a write is unknown: {unknown}")
        return applied

    async def _read_back(self) -> int | None:
        """Return the revision at which our values stand, or None if they do not all stand.

        All puts of one transaction share one revision, and leased ones carry their lease: both
        together tell our write from an equal one of somebody else.
        """
        answer = await self._connection.call(
            lambda endpoint: endpoint.kv.Txn,
            rpc.TxnRequest(success=[_read(operation) for operation in self._operations]),
        )
        revisions: set[int] = set()
        for operation, read in zip(self._operations, answer.responses, strict=True):
            stored = read.response_range.kvs
            if isinstance(operation, Delete):
                if stored:
                    return None
                continue
            if (
                not stored
                or stored[0].value != operation.value
                or stored[0].lease != self._lease_of(operation)
            ):
                return None
            revisions.add(stored[0].mod_revision)
        if len(revisions) > 1:
            return None
        return revisions.pop() if revisions else int(answer.header.revision)

    def _lease_of(self, put: Put) -> int:
        return self._lease_id if put.leased else put.lease_id

    def _operation(self, operation: Put | Delete) -> EtcdMessage:
        key = operation.key.encode()
        if isinstance(operation, Put):
            lease_id = self._lease_of(operation)
            return rpc.RequestOp(
                request_put=rpc.PutRequest(key=key, value=operation.value, lease=lease_id)
            )
        end = range_end(operation.key) if operation.prefix else b""
        return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key, range_end=end))


def _compare(guard: Guard) -> EtcdMessage:
    key = guard.key.encode()
    if guard.create_revision is not None:
        return rpc.Compare(
            key=key,
            target=rpc.Compare.CREATE,
            result=rpc.Compare.EQUAL,
            create_revision=guard.create_revision,
        )
    assert guard.mod_revision is not None, f"guard on {guard.key} has no revision"
    return rpc.Compare(
        key=key,
        target=rpc.Compare.MOD,
        result=rpc.Compare.EQUAL,
        mod_revision=guard.mod_revision,
    )


def _read(operation: Put | Delete) -> EtcdMessage:
    prefix = isinstance(operation, Delete) and operation.prefix
    return rpc.RequestOp(
        request_range=rpc.RangeRequest(
            key=operation.key.encode(),
            range_end=range_end(operation.key) if prefix else b"",
            limit=1,
        )
    )
