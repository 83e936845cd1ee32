"""Invariants 3, 4, 6, 7, 8 and promise 1, against the logs as a new owner reads them."""

from collections import defaultdict
from dataclasses import dataclass, field

from sharemesh.backends.embedded.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.client.records import TopicIdPartition
from sharemesh.codec.client_batches import read_batches
from sharemesh.codec.state_record import decode_record
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import SharePartitionKey, TopicId, TopicPartition
from sharemesh.domain.share_state.fold import ShareState, fold
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import Snapshot, Tombstone, Update
from sharemesh.ports.shard_log import ShardLog
from sharemesh.share_coordinator.generation_reader import GenerationReader
from sharemesh.share_coordinator.generations import restore
from tests.simulation.invariants import BATCHES_IN_ORDER, FINAL, NEVER_BACK
from tests.simulation.loop import WALL_MS, Process, SimClock
from tests.simulation.world import STATE_SHARDS, World

AUDIT_EPOCH = 1_000_000
READ_BYTES = 1 << 20
EPOCHS = ("state_epoch", "leader_epoch_max")
FINISHED = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)


@dataclass(frozen=True, slots=True)
class Reopened:
    """A finished offset that a later write made available, and when that was (virtual ms)."""

    key: SharePartitionKey
    offset: int
    count: int
    write_ms: float


@dataclass(slots=True)
class Audit:
    """What the logs say."""

    states: dict[SharePartitionKey, ShareState] = field(default_factory=dict)
    records: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    reopened: list[Reopened] = field(default_factory=list)
    ended: dict[SharePartitionKey, Tombstone] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)


class Auditor:
    """Takes every log over when all processes are gone."""

    def __init__(self, world: World) -> None:
        self._world = world
        process = Process(world.loop, "auditor")
        self._process = process
        self._disk = world.volume.view(process)
        self._clock = SimClock(world.loop)
        self._counters = world.story.counters

    async def audit(self) -> Audit:
        """Read everything."""
        audit = Audit()
        await self._process.start(self._read(audit))
        return audit

    async def _read(self, audit: Audit) -> None:
        logs = EmbeddedShardLogs(self._disk, self._clock, LogSettings())
        for shard in range(STATE_SHARDS):
            log = await logs.open("state", shard, AUDIT_EPOCH)
            async for chunk in log.replay(await self._begin(audit, shard, log)):
                for stored in chunk:
                    record = decode_record(stored.key, stored.value)
                    if isinstance(record, Snapshot | Update | Tombstone):
                        self._fold(audit, record)
            await log.close()
        records = EmbeddedRecordLogs(self._disk, self._clock, LogSettings())
        for partition in sorted(await records.partitions()):
            opened = await records.open(partition, AUDIT_EPOCH)
            found = audit.records[partition] = {}
            audit.log_starts[partition] = opened.log_start_offset
            offset = opened.log_start_offset
            while offset < opened.high_watermark:
                read = await opened.read(offset, max_bytes=READ_BYTES)
                for batch in read_batches(read.records, check_crc=True):
                    for record in batch.records:
                        found[record.offset] = record.value
                offset = read.headers[-1].last_offset + 1
            await opened.close()

    async def _begin(self, audit: Audit, shard: int, log: ShardLog) -> int | None:
        """Return where to fold on; what is pruned lies in a generation, as for a new owner."""
        if not log.start_offset:
            return None  # the log is whole, and all of it is judged
        machine = ShareStateMachine()
        begin = await restore(machine, shard, log, reader=GenerationReader(self._disk))
        audit.states.update(machine.states())
        return begin

    def _fold(self, audit: Audit, record: Snapshot | Update | Tombstone) -> None:
        before = audit.states.get(record.key)
        after = fold(before, record)
        if isinstance(record, Tombstone):
            self._end(audit, before, record)
        if after is None:
            audit.states.pop(record.key, None)
            return
        audit.states[record.key] = after
        if before is not None:
            self._compare(audit, record.key, before, after)
        else:
            self._begin_again(audit, record.key, after)
        position = -1
        BATCHES_IN_ORDER.judged(self._counters)
        for batch in after.batches:
            if batch.first_offset <= position or batch.last_offset < batch.first_offset:
                text = f"{self._world.place(record.key, batch.first_offset)}: batches overlap"
                audit.complaints.append(BATCHES_IN_ORDER.broken(text))
            position = batch.last_offset

    def _end(self, audit: Audit, before: ShareState | None, record: Tombstone) -> None:
        """A state was deleted: the epochs that it had are in its tombstone."""
        known = audit.ended.get(record.key)
        for word in EPOCHS:
            had = max(getattr(each, word) for each in (before, known, record) if each is not None)
            if getattr(record, word) < had:
                text = f"deleted with {word} {getattr(record, word)}, had {had}"
                where = self._world.place(record.key)
                audit.complaints.append(NEVER_BACK.broken(f"{where}: {text}"))
        audit.ended[record.key] = record

    def _begin_again(self, audit: Audit, key: SharePartitionKey, after: ShareState) -> None:
        """A state begins: beyond the epochs of the life before, so that its requests are late."""
        ended = audit.ended.get(key)
        if ended is None:
            return
        NEVER_BACK.judged(self._counters)
        self._counters["states that began again"] += 1
        if after.state_epoch <= ended.state_epoch:
            text = f"began again in state epoch {after.state_epoch} after {ended.state_epoch}"
            audit.complaints.append(NEVER_BACK.broken(f"{self._world.place(key)}: {text}"))

    def _compare(
        self, audit: Audit, key: SharePartitionKey, before: ShareState, after: ShareState
    ) -> None:
        NEVER_BACK.judged(self._counters)
        for word in ("state_epoch", "snapshot_epoch", "leader_epoch_max"):
            old, new = getattr(before, word), getattr(after, word)
            if new < old:
                text = f"{self._world.place(key)}: {word} went back from {old} to {new}"
                audit.complaints.append(NEVER_BACK.broken(text))
        if after.state_epoch != before.state_epoch:
            return
        if after.start_offset < before.start_offset:
            text = f"start offset went back from {before.start_offset} to {after.start_offset}"
            audit.complaints.append(NEVER_BACK.broken(f"{self._world.place(key)}: {text}"))
        finished = _finished(after)
        for batch in before.batches:
            if batch.delivery_state not in FINISHED:
                continue
            for offset in range(max(batch.first_offset, after.start_offset), batch.last_offset + 1):
                FINAL.judged(self._counters)
                if offset in finished:
                    continue
                # A leader that never heard how its write ended tells the member so and goes on
                # without it (spec ACK-19): the holder, or the next one, decides again, and counts
                # go on. The verdict asks whether somebody had been told that it was final.
                count, write_ms = _count(after, offset), after.write_timestamp_ms - WALL_MS
                audit.reopened.append(Reopened(key, offset, count, write_ms))
                if count < batch.delivery_count:
                    text = f"{self._world.place(key, offset)} was finished, and is not any more"
                    audit.complaints.append(FINAL.broken(text))


def _count(state: ShareState, offset: int) -> int:
    """Return the delivery count of an offset, 0 if the state does not name it."""
    return next(
        (b.delivery_count for b in state.batches if b.first_offset <= offset <= b.last_offset), 0
    )


def _finished(state: ShareState) -> set[int]:
    return {
        offset
        for batch in state.batches
        if batch.delivery_state in FINISHED
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }


def terminal_of(
    audit: Audit, group: str, topics: dict[TopicId, str]
) -> tuple[dict[str, int], dict[str, set[int]]]:
    """Return start offsets and finished offsets of a group, by partition name."""
    starts: dict[str, int] = {}
    terminal: dict[str, set[int]] = defaultdict(set)
    for key, state in audit.states.items():
        if key.group_id == group and key.topic_id in topics:
            name = str(TopicIdPartition(topics[key.topic_id], key.partition, key.topic_id))
            starts[name] = state.start_offset
            terminal[name] = _finished(state)
    return starts, terminal
