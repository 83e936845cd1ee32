"""Shard logs over the embedded log (port ShardLogs)."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import NamedTuple

from sharemesh.backends.embedded.owned.group_commit import CommitEntry, GroupCommit, Piece
from sharemesh.backends.embedded.owned.owned_log import LogPosition, OwnedLog
from sharemesh.backends.embedded.owned.segments import Segment, corrupt, read_whole_frames
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.batch_frame import HEADER_BYTES, place_frame
from sharemesh.codec.control_batches import encode_log_start
from sharemesh.codec.log_layout import shard_log_path
from sharemesh.codec.record_set import RecordSetError, build_plain_batch, decode_records_as
from sharemesh.codec.segment import SEGMENT_HEADER_BYTES
from sharemesh.ports.clock import Clock
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import LogRecord

REPLAY_WINDOW_BYTES = 1 << 20
MERGED_BYTES_MAX = 128 * 1024  # of appends that become one batch; one alone may be larger
RECORD_OVERHEAD_BYTES = 21  # at most: length, attributes, deltas, lengths of key and value


class _Queued(NamedTuple):
    """The records of one append, which become part of a batch when their tick begins."""

    base_offset: int
    timestamp_ms: int
    records: tuple[LogRecord, ...]


class EmbeddedShardLog:
    """One open shard log (port ShardLog)."""

    def __init__(self, disk: Disk, clock: Clock, settings: LogSettings, log: OwnedLog) -> None:
        self._disk = disk
        self._clock = clock
        self._log = log
        self._commits: GroupCommit[_Queued | None] = GroupCommit(
            disk,
            clock,
            log,
            settings,
            settings.shard_reserve_bytes,
            self._on_committed,
            self._encode,
        )

    @property
    def epoch(self) -> int:
        """The epoch under which this log was taken over."""
        return self._log.epoch

    @property
    def start_offset(self) -> int:
        """The first offset that still counts."""
        return self._commits.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._commits.end_offset

    @property
    def committed_end_offset(self) -> int:
        """Everything below is durable and confirmed."""
        return self._commits.committed_end_offset

    async def replay(self, from_offset: int | None = None) -> AsyncIterator[Sequence[LogRecord]]:
        """Yield what is committed, oldest first; a chunk is what one read of the disk gave."""
        first = self.start_offset if from_offset is None else max(from_offset, self.start_offset)
        end = self.committed_end_offset
        for segment in tuple(self._log.segments):
            if segment.end_offset <= first or segment.base_offset >= end:
                continue
            position, offset = SEGMENT_HEADER_BYTES, segment.base_offset
            while offset < min(end, segment.end_offset):
                chunk, position, offset = await self._disk.run(
                    partial(self._read_chunk, segment, position, offset)
                )
                if offset > first and chunk:
                    yield _within(chunk, first, end)

    def append(self, records: Sequence[LogRecord]) -> int:
        """Queue records as one atomic batch and return the offset of the last one."""
        if not records:
            raise ValueError("an append needs at least one record")
        size = HEADER_BYTES + RECORD_OVERHEAD_BYTES * len(records)
        for record in records:
            size += len(record.key) + (0 if record.value is None else len(record.value))
        base = self._commits.end_offset
        end = base + len(records)
        queued = _Queued(base, self._clock.wall_ms(), tuple(records))
        self._commits.append(CommitEntry((), size, end, -1, queued))
        return end - 1

    def has_room(self, more_bytes: int) -> bool:
        """Whether an append of that many bytes would be accepted, as far as is known now."""
        return self._commits.has_room(more_bytes)

    def why_no_room(self) -> str:
        """Return why ``has_room`` says no, and what to do."""
        return "its volume is full; free space there"

    async def refresh_room(self) -> None:
        """Ask the disk again how much space is left."""
        await self._commits.refresh_room()

    async def committed(self, end_offset: int) -> None:
        """Return once everything below is durable and a later check found no higher fence."""
        await self._commits.committed(end_offset)

    async def delete_before(self, offset: int) -> None:
        """Move the log start, commit that, then delete segments that lie below it."""
        if offset > self.committed_end_offset:
            raise ValueError(
                f"log start {offset} is past the committed end {self.committed_end_offset}"
            )
        if offset > self.start_offset:
            marker = encode_log_start(
                offset,
                at_offset=self.end_offset,
                leader_epoch=self.epoch,
                timestamp_ms=self._clock.wall_ms(),
            )
            self._commits.append(CommitEntry((marker,), len(marker), self.end_offset, offset, None))
            await self._commits.committed(self.end_offset)
        await self._commits.between_commits(self._prune)

    async def close(self) -> None:
        """Commit queued batches if that is still possible, and release the files."""
        await self._commits.close()

    def _prune(self) -> None:
        self._log.prune()

    def _encode(self, entries: list[CommitEntry[_Queued | None]]) -> list[Piece]:
        """Make one batch of all records that lie together: fewer headers to read at a replay."""
        pieces: list[Piece] = []
        together: list[_Queued] = []
        size = 0
        for entry in entries:
            size += entry.size_bytes
            if together and (entry.note is None or size > MERGED_BYTES_MAX):
                pieces.append(self._batch(together))
                together, size = [], entry.size_bytes
            if entry.note is None:
                pieces.extend(entry.data)
            else:
                together.append(entry.note)
        if together:
            pieces.append(self._batch(together))
        return pieces

    def _batch(self, together: list[_Queued]) -> bytearray:
        batch = build_plain_batch(
            [
                (record.key, record.value, queued.timestamp_ms)
                for queued in together
                for record in queued.records
            ]
        )
        place_frame(batch, together[0].base_offset, self._log.epoch)
        return batch

    def _on_committed(self, entries: list[CommitEntry[_Queued | None]], place: LogPosition) -> None:
        """Nothing to index: shard logs are only read from one end to the other."""

    def _read_chunk(
        self, segment: Segment, position: int, offset: int
    ) -> tuple[list[LogRecord], int, int]:
        file = self._log.file_of(segment)
        view, walk = read_whole_frames(
            self._disk,
            file,
            segment,
            position=position,
            offset=offset,
            window_bytes=REPLAY_WINDOW_BYTES,
        )
        records: list[LogRecord] = []
        for frame in walk.frames:
            if frame.is_marker:
                continue
            begin = frame.position - position
            try:
                batch = view[begin : begin + frame.size_bytes]
                records += decode_records_as(batch, LogRecord)
            except RecordSetError as error:
                raise corrupt(file, frame.position, frame.base_offset, str(error)) from error
        return records, walk.position, walk.end_offset


def _within(chunk: list[LogRecord], first: int, end: int) -> list[LogRecord]:
    if chunk[0].offset >= first and chunk[-1].offset < end:
        return chunk
    return [record for record in chunk if first <= record.offset < end]


class EmbeddedShardLogs:
    """All shard logs of a data directory (port ShardLogs)."""

    def __init__(self, disk: Disk, clock: Clock, settings: LogSettings) -> None:
        self._disk = disk
        self._clock = clock
        self._settings = settings

    async def open(self, name: str, shard: int, epoch: int) -> EmbeddedShardLog:
        """Take the log of a shard over under ``epoch`` (LOG-5).

        Raises:
            FencedError: A fence at or above ``epoch`` exists.
            CorruptLogError: Committed bytes cannot be read.
            LogFailedError: The disk refused; open it again with a new epoch.
        """
        path = shard_log_path(name, shard)
        log = await self._disk.run(partial(OwnedLog, self._disk, path, epoch, self._settings))
        if log.corruption is not None:
            await self._disk.run(log.close)
            raise log.corruption
        return EmbeddedShardLog(self._disk, self._clock, self._settings, log)
