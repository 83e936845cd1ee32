"""How a run ended: the journals of all processes against the durable state of the group."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import TopicId
from sharemesh.domain.share_state.fold import content_hash
from sharemesh.domain.share_state.records import StateSnapshot, StateUpdate
from sharemesh_spark.generation.generation_files import shard_content
from sharemesh_spark.generation.shard_fold import generation_of_shard
from sharemesh_spark.generation.source import shard_records
from sharemesh_spark.reader.data_directory import shards
from tests.history.checker import History, Report
from tests.history.journal import Entry, read
from tests.spark.reference_fold import fold_of_log

FINAL_STATES = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
EVERYTHING = 2**62


@dataclass(frozen=True, slots=True)
class DurableState:
    """What the share state log folds to, for one group and topic, and all it ever finished."""

    start_offsets: dict[str, int]
    terminal: dict[str, set[int]]
    acknowledged: set[tuple[str, int]]
    archived: set[tuple[str, int]]


def durable_state(data: Path, group_id: str, topic: str, topic_id: TopicId) -> DurableState:
    """Fold the share state log on disk and return what it says of the group's partitions.

    The vectorised fold of Spark must come to the same.
    """
    check_folds_are_equal(data)
    start_offsets: dict[str, int] = {}
    terminal: dict[str, set[int]] = defaultdict(set)
    for shard in shards(data):
        for key, state in fold_of_log(data, shard, EVERYTHING).states.items():
            if key.group_id != group_id or key.topic_id != topic_id:
                continue
            partition = f"{topic}/{key.partition}"
            start_offsets[partition] = state.start_offset
            for batch in state.batches:
                if batch.delivery_state in FINAL_STATES:
                    terminal[partition].update(range(batch.first_offset, batch.last_offset + 1))
    acknowledged: set[tuple[str, int]] = set()
    archived: set[tuple[str, int]] = set()
    for shard in shards(data):
        for _, _, record in shard_records(data, shard):
            if (
                not isinstance(record, StateUpdate | StateSnapshot)
                or record.key.group_id != group_id
            ):
                continue
            # A snapshot of a version before this note says no more than the whole state.
            changed = record.batches
            if isinstance(record, StateSnapshot):
                changed = record.changed or record.batches
            for batch in changed:
                if batch.delivery_state not in FINAL_STATES:
                    continue
                ended = archived if batch.delivery_state is DeliveryState.ARCHIVED else acknowledged
                ended.update(
                    (f"{topic}/{record.key.partition}", offset)
                    for offset in range(batch.first_offset, batch.last_offset + 1)
                )
    return DurableState(start_offsets, terminal, acknowledged, archived)


def check_folds_are_equal(data: Path) -> int:
    """Fold each shard by Spark's vectorised rules and by the domain's; return compared states.

    The log must be whole: nothing pruned below a generation.
    """
    return sum(check_folds_of(data, shard) for shard in shards(data))


def check_folds_of(data: Path, shard: int) -> int:
    """Do this for one shard; return its states."""
    content = shard_content(generation_of_shard(data, shard, one_in=1), shard)
    folded = fold_of_log(data, shard, content.about["end_offset"])
    wanted = content_hash(folded.states, folded.floors)
    assert content.hash() == wanted, f"shard {shard} of {data}: the folds differ"
    return len(content.names)


def judge(journals: Iterable[Path], state: DurableState, *, delivery_count_limit: int) -> Report:
    """Return what the history says, violations included."""
    history = History(delivery_count_limit=delivery_count_limit)
    history.add(read(journals))
    return history.judge(state.start_offsets, state.terminal)


def first_after(
    entries: Iterable[Entry], time_ms: float, event: str, partitions: set[str] | None = None
) -> float | None:
    """Return ms from ``time_ms`` to the next event, in any or some partitions; None: never."""
    for entry in entries:
        if (
            entry.time_ms > time_ms
            and entry.event == event
            and (partitions is None or entry.fields["p"] in partitions)
        ):
            return entry.time_ms - time_ms
    return None


def held_at(entries: Iterable[Entry], who: str, time_ms: float) -> dict[str, set[int]]:
    """Return the offsets that ``who`` had got and not seen confirmed at that time."""
    held: dict[str, set[int]] = defaultdict(set)
    for entry in entries:
        if entry.who != who or entry.time_ms > time_ms:
            continue
        if entry.event == "delivered":
            for first, last, _ in entry.fields["r"]:
                held[entry.fields["p"]].update(range(first, last + 1))
        elif entry.event == "acknowledged" and entry.fields["k"] != "renew":
            for first, last in entry.fields["r"]:
                held[entry.fields["p"]].difference_update(range(first, last + 1))
    return {partition: offsets for partition, offsets in held.items() if offsets}
