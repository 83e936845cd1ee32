"""Snapshots of large states, which come in parts: whole or not at all (WIN-12)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sharemesh.domain.delivery_state import Cause
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.packed_batches import PackedBatches, columns_of, packed
from sharemesh.domain.share_state.fold import NUMBERS, ShareState
from sharemesh.domain.share_state.records import Origin, SnapshotPart, StateSnapshot
from sharemesh.domain.state_batch import StateBatch

PART_BATCHES = 16_384
"""Batches of a part at most: 31 bytes each at worst, so that none is over 512 KiB."""


@dataclass(slots=True)
class _Begun:
    first: SnapshotPart
    offset: int
    batches: list[Sequence[StateBatch]] = field(default_factory=list)


class SnapshotParts:
    """Parts that wait for their last one, by share partition."""

    def __init__(self) -> None:
        self._begun: dict[SharePartitionKey, _Begun] = {}

    def take(self, record: SnapshotPart, offset: int) -> tuple[StateSnapshot, int] | None:
        """Return the whole snapshot with its last part, and where its first part lies.

        A part that does not follow the one before it ends what was begun.
        """
        key = record.snapshot.key
        begun = self._begun.pop(key, None)
        if record.part == 0:
            begun = _Begun(record, offset)
        elif begun is None or not _follows(record, begun):
            return None
        begun.batches.append(record.batches)
        if len(begun.batches) < record.parts:
            self._begun[key] = begun
            return None
        batches = PackedBatches.joined(map(packed_whatever, begun.batches))
        return replace(record.snapshot, batches=packed(batches)), begun.offset


def in_parts(snapshot: StateSnapshot, made_ms: int, batches_max: int) -> list[SnapshotPart]:
    """Return a snapshot as the parts that are written, each of at most so many batches."""
    pieces = packed_whatever(snapshot.batches).parts(batches_max)
    bare = replace(snapshot, batches=())
    return [
        SnapshotPart(bare, made_ms, number, len(pieces), piece)
        for number, piece in enumerate(pieces)
    ]


def state_in_parts(
    key: SharePartitionKey, state: ShareState, made_ms: int, batches_max: int
) -> list[SnapshotPart]:
    """Return the parts that say a state again, as it is."""
    numbers: dict[str, Any] = {name: getattr(state, name) for name in NUMBERS}
    snapshot = StateSnapshot(
        key=key,
        batches=state.batches,
        origin=Origin(Cause.SNAPSHOT),
        archived=state.archived,
        **numbers,
    )
    return in_parts(snapshot, made_ms, batches_max)


def packed_whatever(batches: Sequence[StateBatch]) -> PackedBatches:
    """Return batches packed, however few they are."""
    if isinstance(batches, PackedBatches):
        return batches
    return PackedBatches.of(columns_of(batches))


def _follows(record: SnapshotPart, begun: _Begun) -> bool:
    first = begun.first
    return (
        record.part == len(begun.batches)
        and record.parts == first.parts
        and record.made_ms == first.made_ms
        and record.snapshot == first.snapshot
    )
