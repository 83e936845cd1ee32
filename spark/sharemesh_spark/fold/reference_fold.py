"""The coordinator's own fold, record by record: what vectorised folds are measured against."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.content_hash import NUMBERS
from sharemesh.domain.share_state.fold import Floors, ShareState, fold, fold_floors
from sharemesh.domain.share_state.records import StateRecord, StateSnapshot, StateUpdate, Tombstone
from sharemesh.domain.state_batch import StateBatch
from sharemesh_spark.fold.vector_fold import FoldRows

States = dict[SharePartitionKey, ShareState]


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


def states_of(rows: Iterable[dict[str, Any]]) -> tuple[States, Floors]:
    """Return states and floors from the rows of one shard in a generation."""
    states: States = {}
    floors = Floors()
    for row in rows:
        if row["kind"] == "floors":
            floors = Floors(row["state_epoch"], row["leader_epoch"])
            continue
        key = SharePartitionKey(
            GroupId(row["group_id"]), TopicId(bytes(row["topic_id"])), row["partition"]
        )
        batches = tuple(
            StateBatch(b["first"], b["last"], DeliveryState(b["state"]), b["count"])
            for b in row["batches"]
        )
        numbers = {name: row[name] for name in NUMBERS}
        states[key] = ShareState(batches=batches, **numbers)
    return states, floors


def state_at(rows: FoldRows, row: int) -> ShareState:
    """Return the state in one row of a vectorised fold."""
    runs = rows.runs
    low, high = np.searchsorted(runs.group, [row, row + 1]).tolist()
    batches = tuple(
        StateBatch(
            int(runs.first[index]),
            int(runs.last[index]),
            DeliveryState(int(runs.state[index])),
            int(runs.count[index]),
        )
        for index in range(low, high)
    )
    numbers: dict[str, Any] = {name: int(rows.numbers[name][row]) for name in NUMBERS}
    return ShareState(batches=batches, **numbers)
