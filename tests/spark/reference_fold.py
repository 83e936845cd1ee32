"""The coordinator's own fold, record by record: what vectorised folds are measured against."""

from pathlib import Path

from sharemesh.codec.generation import States
from sharemesh.domain.share_state.fold import Floors, fold, fold_floors
from sharemesh.domain.share_state.records import StateRecord, StateSnapshot, StateUpdate, Tombstone
from sharemesh_spark.generation.source import shard_records


class DomainFold:
    """States and floors of one shard while its records pass by in order."""

    def __init__(self) -> None:
        self.states: States = {}
        self.floors = Floors()
        self.end_offset = 0
        self.records = 0

    def add(self, offset: int, record: StateRecord) -> None:
        """Fold one record."""
        self.end_offset = offset + 1
        self.records += 1
        self.floors = fold_floors(self.floors, record)
        if isinstance(record, StateSnapshot | StateUpdate | Tombstone):
            state = fold(self.states.get(record.key), record)
            if state is None:
                self.states.pop(record.key, None)
            else:
                self.states[record.key] = state


def fold_of_log(data: Path, shard: int, end_offset: int) -> DomainFold:
    """Return the domain's fold of a shard's records below ``end_offset``, without Spark."""
    folded = DomainFold()
    for offset, _, record in shard_records(data, shard):
        if offset >= end_offset:
            break
        folded.add(offset, record)
    return folded
