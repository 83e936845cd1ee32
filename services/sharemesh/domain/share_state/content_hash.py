"""One hash for the folded state of a shard, whoever folded it (LOG-19)."""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence

from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_state.fold import Floors, ShareState
from sharemesh.domain.share_state.key_text import format_key

NUMBERS = (
    "snapshot_epoch",
    "state_epoch",
    "leader_epoch",
    "leader_epoch_max",
    "start_offset",
    "delivery_complete_count",
    "create_timestamp_ms",
    "write_timestamp_ms",
    "initial_start_offset",
)
"""The numbers of a state, in the order in which they are hashed."""

BATCH_FIELDS = ("q", "q", "i", "i")
"""First and last offset, delivery state and delivery count; big-endian, without gaps."""

_STATE = struct.Struct(">iiiiqiqqqi")
_BATCH = struct.Struct(">" + "".join(BATCH_FIELDS))
_FLOORS = struct.Struct(">ii")


def content_hash(states: Mapping[SharePartitionKey, ShareState], floors: Floors) -> bytes:
    """Return the SHA-256 over all states in order of their key text, and the floors."""
    return packed_hash(
        (
            (
                format_key(key),
                [getattr(state, name) for name in NUMBERS],
                b"".join([_BATCH.pack(*batch[:4]) for batch in state.batches]),
            )
            for key, state in states.items()
        ),
        floors,
    )


def packed_hash(states: Iterable[tuple[str, Sequence[int], bytes]], floors: Floors) -> bytes:
    """Return the same hash of states that stand in columns, without making them.

    Args:
        states: Key text, ``NUMBERS`` and the bytes of the batches (``BATCH_FIELDS``) of each.
        floors: Of the shard.
    """
    digest = hashlib.sha256(_FLOORS.pack(floors.state_epoch, floors.leader_epoch))
    for text, numbers, batches in sorted(states, key=lambda item: item[0]):
        name = text.encode()
        digest.update(struct.pack(">i", len(name)) + name)
        digest.update(_STATE.pack(*numbers, len(batches) // _BATCH.size))
        digest.update(batches)
    return digest.digest()
