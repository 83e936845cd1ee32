"""One hash for the folded state of a shard, whoever folded it (DESIGN 5, "Generations")."""

import hashlib
import struct
from collections.abc import Mapping

from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_state.fold import Floors, ShareState
from sharemesh.domain.share_state.key_text import format_key

_STATE = struct.Struct(">iiiiqiqqqi")
_BATCH = struct.Struct(">qqii")
_FLOORS = struct.Struct(">ii")


def content_hash(states: Mapping[SharePartitionKey, ShareState], floors: Floors) -> bytes:
    """Return the SHA-256 over all states in order of their key text, and the floors."""
    digest = hashlib.sha256(_FLOORS.pack(floors.state_epoch, floors.leader_epoch))
    for text, state in sorted(
        ((format_key(key), state) for key, state in states.items()), key=lambda item: item[0]
    ):
        name = text.encode()
        digest.update(struct.pack(">i", len(name)) + name)
        digest.update(
            _STATE.pack(
                state.snapshot_epoch,
                state.state_epoch,
                state.leader_epoch,
                state.leader_epoch_max,
                state.start_offset,
                state.delivery_complete_count,
                state.create_timestamp_ms,
                state.write_timestamp_ms,
                state.initial_start_offset,
                len(state.batches),
            )
        )
        for batch in state.batches:
            digest.update(
                _BATCH.pack(
                    batch.first_offset,
                    batch.last_offset,
                    batch.delivery_state,
                    batch.delivery_count,
                )
            )
    return digest.digest()
