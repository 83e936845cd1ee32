"""What makes one kind of coordinator shard: its machine, its records, and their bytes.

How a coordinator is built on the runtime:

1. Write a pure machine with ``apply(record, offset)`` (record in, state changed) and pure functions
   that turn (machine, request) into a ``Decision`` (request in, records and response out).
2. Describe it with a ``ShardDefinition``; ``replaying(decode)`` makes the usual ``load``.
3. Give the kind to a ``ShardSet``: it is the ``ports.cluster.ShardHost`` of the service.
4. In a handler: ``shard = shards.shard(index)`` (raises what the client must hear), then
   ``await shard.write(lambda machine: machine.decide(request, now))`` or ``await shard.read(...)``.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sharemesh.ports.shard_log import LogRecord, ShardLog

Record = TypeVar("Record")
Record_contra = TypeVar("Record_contra", contravariant=True)
Response_co = TypeVar("Response_co", covariant=True)
Record_co = TypeVar("Record_co", covariant=True)


class ShardMachine(Protocol[Record_contra]):
    """State of one shard that only records change."""

    def apply(self, record: Record_contra, offset: int) -> None:
        """Change the state as this record says; used for new records and on load alike.

        ``offset`` is where the record lies in the log. For a record of this very moment it may be
        a little lower than that, never higher (the log may put a record of its own in between).
        """
        ...


Machine = TypeVar("Machine", bound=ShardMachine[Any])


@dataclass(frozen=True, slots=True)
class Decision(Generic[Record_co, Response_co]):
    """What a request comes to: records, all or none of which are kept, and the answer."""

    records: Sequence[Record_co]
    response: Response_co


@dataclass(frozen=True, slots=True)
class ShardDefinition(Generic[Machine, Record]):
    """One kind of shard; ``name`` is the log's name (``state``, ``group``)."""

    name: str
    new_machine: Callable[[int], Machine]
    """Returns an empty machine for a shard number."""
    encode: Callable[[Record], LogRecord]
    """Returns key, value and timestamp; raises if the record cannot be stored."""
    load: Callable[[Machine, Sequence[LogRecord]], None]
    """Applies stored records, oldest first; unknown kinds and versions are passed over."""
    restore: Callable[[Machine, int, ShardLog], Awaitable[int | None]] | None = None
    """Fills a shard's machine from outside the log; returns where to replay from (None: start)."""


def replaying(
    decode: Callable[[LogRecord], Record | None],
) -> Callable[[ShardMachine[Record], Sequence[LogRecord]], None]:
    """Return a ``load`` that decodes and applies one record after the other (None: skip it)."""

    def load(machine: ShardMachine[Record], chunk: Sequence[LogRecord]) -> None:
        for stored in chunk:
            record = decode(stored)
            if record is not None:
                machine.apply(record, stored.offset)

    return load
