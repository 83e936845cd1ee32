"""The logs as a new owner reads them when all processes are gone (invariant 7)."""

from collections import defaultdict
from dataclasses import dataclass, field

from sharemesh.client.records import TopicIdPartition
from sharemesh.codec.client_batches import read_batches
from sharemesh.codec.group_record import Moment, read_record
from sharemesh.codec.state_record import decode_record, decode_updates
from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import SharePartitionKey, TopicId, TopicPartition
from sharemesh.domain.share_state.fold import ShareState
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.ports.shard_log import ShardLog
from sharemesh.share_coordinator.generations import restore
from sharemesh.share_coordinator.shard_kind import load
from tests.simulation.checkers.group_log import GroupHistory
from tests.simulation.checkers.state_log import StateHistory, finished_offsets
from tests.simulation.engines.engine import GROUP_SHARDS, STATE_SHARDS, LogsOfAuditor
from tests.simulation.invariants import STATE_IS_REPLAY
from tests.simulation.loop import Process, SimClock
from tests.simulation.world import World

AUDIT_EPOCH = 1_000_000
READ_BYTES = 1 << 20
BACKLOG_BYTES = 1 << 20


@dataclass(slots=True)
class Audit:
    """What the logs say."""

    records: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)


class Auditor:
    """Takes every log over when all processes are gone."""

    def __init__(self, world: World, history: StateHistory) -> None:
        self._world = world
        self._process = Process(world.loop, "auditor")
        self._clock = SimClock(world.loop)
        self._history = history

    async def audit(self) -> Audit:
        """Read everything."""
        audit = Audit()
        await self._process.start(self._read(audit))
        return audit

    async def _read(self, audit: Audit) -> None:
        engine_logs = await self._world.engine.logs_of_auditor(self._process, self._clock)
        logs = engine_logs.shards
        for shard in range(STATE_SHARDS):
            self._history.read_on(shard)
            log = await logs.open("state", shard, AUDIT_EPOCH)
            await self._read_states(shard, log)
            await log.close()
        for shard in range(GROUP_SHARDS):
            log = await logs.open("group", shard, AUDIT_EPOCH)
            await self._read_groups(shard, log)
            await log.close()
        await self._read_records(audit, engine_logs)

    async def _read_states(self, shard: int, log: ShardLog) -> None:
        """What a new owner loads must be what all records ever committed come to."""
        engine = self._world.engine
        self._history.begins(shard, log.start_offset)
        loaded = ShareStateMachine(decode_updates=decode_updates)
        reader = engine.generations(self._process)
        begin = 0 if reader is None else await restore(loaded, shard, log, reader=reader) or 0
        async for chunk in log.replay(None):
            for stored in chunk:
                record = decode_record(stored.key, stored.value)
                self._history.take(shard, stored.offset, record)
            tail = [stored for stored in chunk if stored.offset >= begin]
            load(loaded, tail, backlog_max_bytes=BACKLOG_BYTES)
        STATE_IS_REPLAY.judged(self._world.event_log.counters)
        if loaded.floors != self._history.floors[shard]:
            text = f"state shard {shard}: floors {loaded.floors}, not {self._history.floors[shard]}"
            self._world.event_log.violation(self._world.now_s, STATE_IS_REPLAY.broken(text))
        found, known = dict(loaded.states()), self._history.of_shard(shard)
        for key in sorted(found.keys() | known.keys(), key=str):
            if found.get(key) != known.get(key):
                text = f"{self._world.place(key)}: loaded as {found.get(key)}, not {known.get(key)}"
                self._world.event_log.violation(self._world.now_s, STATE_IS_REPLAY.broken(text))

    async def _read_groups(self, shard: int, log: ShardLog) -> None:
        history = GroupHistory(self._world, shard, is_whole=log.start_offset == 0)
        moment = Moment(self._clock.now_ms(), self._clock.wall_ms())
        async for chunk in log.replay(None):
            for stored in chunk:
                record = read_record(stored.key, stored.value, moment)
                if record is not None:
                    history.take(stored.offset, record)
        history.end()

    async def _read_records(self, audit: Audit, logs: LogsOfAuditor) -> None:
        for partition in sorted(await logs.partitions()):
            opened = await logs.records.open(partition, AUDIT_EPOCH)
            found = audit.records[partition] = {}
            offset = opened.log_start_offset
            while offset < opened.high_watermark:
                try:
                    read = await opened.read(offset, max_bytes=READ_BYTES)
                except RefusedError:
                    if opened.log_start_offset <= offset:
                        raise
                    offset = opened.log_start_offset  # brokers keep to retention meanwhile
                    continue
                for batch in read_batches(read.records, check_crc=True):
                    for record in batch.records:
                        found[record.offset] = record.value
                offset = read.headers[-1].last_offset + 1
            audit.log_starts[partition] = opened.log_start_offset
            await opened.close()


def terminal_of(
    states: dict[SharePartitionKey, ShareState], group: str, topics: dict[TopicId, str]
) -> tuple[dict[str, int], dict[str, set[int]]]:
    """Return start offsets and finished offsets of a group, by partition name."""
    starts: dict[str, int] = {}
    terminal: dict[str, set[int]] = defaultdict(set)
    for key, state in states.items():
        if key.group_id == group and key.topic_id in topics:
            name = str(TopicIdPartition(topics[key.topic_id], key.partition, key.topic_id))
            starts[name] = state.start_offset
            terminal[name] = finished_offsets(state)
    return starts, terminal
