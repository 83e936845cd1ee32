"""The record log of one topic-partition (port PartitionLog)."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from sharemesh.backends.embedded.owned.damaged_log import resume_after
from sharemesh.backends.embedded.owned.group_commit import CommitEntry, GroupCommit
from sharemesh.backends.embedded.owned.owned_log import LogPosition, OwnedLog
from sharemesh.backends.embedded.owned.segments import Segment
from sharemesh.backends.embedded.records.log_snapshot import write_snapshot
from sharemesh.backends.embedded.records.producers import (
    PRODUCER_EPOCH_MAX,
    AppendedBatch,
    Producers,
)
from sharemesh.backends.embedded.records.recent_batches import RecentBatches
from sharemesh.backends.embedded.records.record_load import Loaded, load_records
from sharemesh.backends.embedded.records.record_reader import RecordReader
from sharemesh.backends.embedded.records.scrub import Scrub
from sharemesh.backends.embedded.records.undated_segments import UndatedSegments
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.batch_frame import HEADER_BYTES, Frame, frame_of, place_frame, placed_header
from sharemesh.codec.control_batches import encode_log_start, encode_txn_marker
from sharemesh.codec.produced_batches import check_batches
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.record_batch import BatchHeader
from sharemesh.domain.share_partition.events import AbortedTransaction
from sharemesh.ports.clock import Clock
from sharemesh.ports.disk import Disk
from sharemesh.ports.record_log import (
    AppendResult,
    OpenTransaction,
    Placed,
    ReadResult,
    SearchTurn,
    TopicLogConfig,
)
from sharemesh.ports.shard_log import CorruptLogError, FencedError, LogFailedError, LogFullError

MARKERS_AT_ONCE = 256
"""Transactions that are aborted with one commit."""

_log = logging.getLogger(__name__)


def corruption_advice(resume_offset: int) -> str:
    """Return what can be done about a damaged log."""
    return (
        "records before it are served and nothing is written: restore that file from a copy and "
        "restart the leader, or give the records up that cannot be read with `sharemesh topics "
        f"delete-records TOPIC/PARTITION --before {resume_offset}`"
    )


class _Note(NamedTuple):
    """Frames of one append, with positions relative to its bytes."""

    frames: list[Frame]
    is_abort: bool


class EmbeddedPartitionLog:
    """One topic-partition under one leader epoch (port PartitionLog)."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        settings: LogSettings,
        log: OwnedLog,
        loaded: Loaded,
        recent: RecentBatches,
    ) -> None:
        self._recent = recent
        self._disk = disk
        self._clock = clock
        self._log = log
        self._settings = settings
        self._corruption: CorruptLogError | None = None
        self._resume_offset = -1
        self._take(loaded)
        self.scrub = Scrub(disk, clock, log.path, self._found)
        self._config = TopicLogConfig(batch_bytes_max=settings.batch_bytes_max)
        self._undated = UndatedSegments()
        self._callbacks: list[Callable[[], None]] = []
        self._commits: GroupCommit[_Note] = GroupCommit(
            disk, clock, log, settings, settings.record_reserve_bytes, self._on_committed
        )
        self.looks_begun = self._commits.looks_begun
        self.has_looked_since = self._commits.has_looked_since

    def _take(self, loaded: Loaded) -> None:
        """Adopt the loaded state."""
        self._index = loaded.index
        self._producers: Producers = loaded.producers
        self._durable_producers = loaded.producers.copy()  # without what waits for its commit
        self._transactions = loaded.transactions
        self._transactions.known_since(self._clock.now_ms())
        self._high_watermark = loaded.end_offset
        self._to_scan_bytes = loaded.scanned_bytes  # what the next start would have to scan
        self._reader = RecordReader(self._disk, self._log.path, loaded.index)
        self._is_cut_short = loaded.corruption is not None  # the index ends at the damage
        self._corruption = None
        if loaded.corruption is not None:
            self._note_corruption(loaded.corruption, loaded.resume_offset)
        self._log.before_change = None if self._is_cut_short else self._write_snapshot

    @property
    def leader_epoch(self) -> int:
        """The epoch of this writer."""
        return self._log.epoch

    @property
    def log_start_offset(self) -> int:
        """The first offset that still counts."""
        return self._commits.log_start_offset

    @property
    def high_watermark(self) -> int:
        """One past the last confirmed record."""
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """One past the last record that belongs to no open transaction."""
        return self._transactions.stable_end(self._high_watermark)

    @property
    def corruption(self) -> CorruptLogError | None:
        """Where the log cannot be read; then what lies before it is served, and no writes."""
        return self._corruption

    @property
    def damage(self) -> tuple[int, str] | None:
        """The first offset that cannot be read, and where and what to do; None if all is whole."""
        if self._corruption is None:
            return None
        return self._corruption.offset, self._storage_error(self._corruption).message

    @property
    def highest_producer_id(self) -> int:
        """The highest producer id in the log, or −1."""
        return self._producers.highest_id

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return self._index.total_bytes()

    @property
    def has_own_fence(self) -> bool:
        """Yes: a file in its directory."""
        return True

    @property
    def unavailable(self) -> str:
        """Empty: the disk is asked anew by every read."""
        return ""

    async def refresh(self) -> None:
        """Return: nobody else writes to this log."""

    def on_advance(self, callback: Callable[[], None]) -> None:
        """Call back on the loop after each move of the high watermark or the log start."""
        self._callbacks.append(callback)

    def configure(self, config: TopicLogConfig) -> None:
        """Take over a topic's configuration."""
        self._config = config
        if config.segment_bytes > 0:
            self._log.segment_bytes = config.segment_bytes

    async def append(self, batches: bytes, placed: Placed | None = None) -> AppendResult:
        """Validate, assign offsets, append, and return once committed."""
        config, now_ms = self._config, self._clock.wall_ms()
        earliest_ms = max(0, now_ms - config.timestamp_before_max_ms)
        times_ms = (earliest_ms, now_ms + config.timestamp_after_max_ms)
        frames = check_batches(batches, batch_bytes_max=config.batch_bytes_max, times_ms=times_ms)
        await self._commits.ask_for_room(len(batches))
        before = self._producers.check(frames)
        spans = self._place(batches, frames, before)
        if placed is not None:
            placed()
        await self._commits.committed(max(last for _, last in spans) + 1)
        return AppendResult(spans[0][0], spans[-1][1], self.log_start_offset)

    async def append_txn_marker(
        self, producer_id: int, producer_epoch: int, *, commit: bool
    ) -> AppendResult:
        """Append a control batch that ends the open transaction of this producer."""
        self._producers.check_marker(producer_id, producer_epoch)
        offset = self._place_marker(producer_id, producer_epoch, commit=commit)
        await self._commits.committed(offset + 1)
        return AppendResult(offset, offset, self.log_start_offset)

    def open_transactions(self) -> list[OpenTransaction]:
        """Return the open transactions, the one that began first in front."""
        return self._transactions.listed(self._producers, self._clock.now_ms())

    async def abort_transactions(self, open_ms: int) -> int:
        """Abort transactions that are open for so long, each under a higher producer epoch.

        Returns how many it aborted, at most ``MARKERS_AT_ONCE``. A batch that comes later with the
        epoch of its transaction is refused: it cannot open what was aborted again (BND-11).
        """
        now_ms, offset, count = self._clock.now_ms(), -1, 0
        for producer_id, first in self._transactions.open_for(open_ms, now_ms, MARKERS_AT_ONCE):
            if self._producers.transaction_of(producer_id) != first:
                continue  # its end waits for its commit, and another one may have begun behind it
            epoch = min(self._producers.epoch_of(producer_id) + 1, PRODUCER_EPOCH_MAX)
            offset = self._place_marker(producer_id, epoch, commit=False)
            count += 1
        if count:
            await self._commits.committed(offset + 1)
        return count

    async def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        end_offset: int | None = None,
        committed: bool = False,
    ) -> ReadResult:
        """Return whole batches from the one that holds ``offset`` (or the next one)."""
        if not committed:
            return await self._read(offset, max_bytes, end_offset)
        end = self.last_stable_offset if end_offset is None else end_offset
        read = await self._read(offset, max_bytes, end)
        return replace(read, aborted=self._aborted_in(read.headers))

    def _aborted_in(self, headers: tuple[BatchHeader, ...]) -> tuple[AbortedTransaction, ...]:
        if not headers:
            return ()
        first, end = headers[0].base_offset, headers[-1].last_offset + 1
        return tuple(
            AbortedTransaction(each.producer_id, each.first_offset)
            for each in self._transactions.aborted_between(first, end)
        )

    async def _read(self, offset: int, max_bytes: int, end_offset: int | None) -> ReadResult:
        end = self._high_watermark if end_offset is None else min(end_offset, self._high_watermark)
        wanted = max(offset, offset + 1 if end_offset is None else end_offset)
        if self._is_cut_short and self._corruption and offset >= self._high_watermark < wanted:
            raise self._storage_error(self._corruption)
        if not self.log_start_offset <= offset <= self._high_watermark:
            raise RefusedError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in {self.log_start_offset}..{self._high_watermark}",
            )
        if offset < end:
            recent = self._recent.read(offset, end, max_bytes)
            if recent is not None:
                return recent
        try:
            return await self._reader.read(offset, end, max_bytes)
        except CorruptLogError as error:
            await self._found(error)
            raise self._storage_error(error) from error

    async def look(self) -> None:
        """Check that no higher fence exists now."""
        await self._commits.committed(0)

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """Return about how many bytes lie in ``[offset, end_offset)``."""
        return self._index.bytes_between(
            max(offset, self.log_start_offset), min(end_offset, self._high_watermark)
        )

    async def offset_for_timestamp(self, time_ms: int, turn: SearchTurn) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record at or after the time, or None."""
        try:
            async with turn():
                where = self.log_start_offset, self._high_watermark
                return await self._reader.offset_for_timestamp(time_ms, *where)
        except CorruptLogError as error:
            await self._found(error)
            raise self._storage_error(error) from error

    async def delete_records(self, before_offset: int) -> int:
        """Move the log start (−1: to the high watermark) and return it, once committed.

        In a damaged log also past the damage, up to the end of all that was ever confirmed (−1:
        to there). If what is left can be read, the log takes writes again.
        """
        is_damaged = self._corruption is not None
        end = self._commits.committed_end_offset if is_damaged else self._high_watermark
        target = end if before_offset == -1 else before_offset
        if not 0 <= target <= end:
            raise RefusedError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"cannot delete before offset {before_offset}: it is not within 0..{end}; "
                "-1 means the end",
            )
        await self._move_log_start(target)
        return self.log_start_offset

    async def apply_retention(self, now_wall_ms: int) -> int:
        """Move the log start past segments that are too old or too much."""
        config, target = self._config, self.log_start_offset
        excess = self.size_bytes - config.retention_bytes if config.retention_bytes >= 0 else 0
        self._undated.look(self._index, now_wall_ms, now_wall_ms + config.timestamp_after_max_ms)
        for index in self._index.segments:
            size = index.end_position
            newest_ms = self._undated.newest_ms(index)
            old = config.retention_ms >= 0 and newest_ms < now_wall_ms - config.retention_ms
            if not old and excess < size:
                break
            excess -= size
            target = max(target, index.end_offset)
        await self._move_log_start(target)
        return self.log_start_offset

    async def close(self) -> None:
        """Commit queued batches if that is still possible, and release files."""
        await self.scrub.close()
        if self._to_scan_bytes > self._settings.snapshot_every_bytes:
            with suppress(FencedError, LogFailedError):
                await self._commits.between_commits(self._log.note_change)
        await self._commits.close()
        self._recent.clear()

    # ---- writing --------------------------------------------------------------------------

    def _place(
        self, batches: bytes, frames: list[Frame], before: list[AppendedBatch | None]
    ) -> list[tuple[int, int]]:
        """Queue the new frames, and return (base offset, last offset) of all of them."""
        new = [frame for frame, known in zip(frames, before, strict=True) if known is None]
        view = memoryview(batches)
        pieces: list[bytes | memoryview] = []
        start = offset = self._commits.end_offset
        position, epoch = 0, self._log.epoch
        placed: list[Frame] = []
        for frame in new:
            at, size = frame.position, frame.size_bytes
            pieces.append(placed_header(batches[at : at + HEADER_BYTES], offset, epoch))
            pieces.append(view[at + HEADER_BYTES : at + size])  # not copied: it is opaque
            end = offset + frame.record_count
            placed.append(
                frame._replace(
                    position=position, base_offset=offset, end_offset=end, leader_epoch=epoch
                )
            )
            offset, position = end, position + size
        if placed:
            self._queue(
                CommitEntry(tuple(pieces), position, offset, -1, _Note(placed, is_abort=False))
            )
        for frame in placed:
            self._producers.note(frame)
        spans: list[tuple[int, int]] = []
        next_offset = start
        for frame, known in zip(frames, before, strict=True):
            if known is not None:
                spans.append((known.base_offset, known.last_offset))
            else:
                spans.append((next_offset, next_offset + frame.record_count - 1))
                next_offset += frame.record_count
        return spans

    def _place_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> int:
        """Queue a control batch that ends a transaction, and return its offset."""
        batch = encode_txn_marker(
            producer_id, producer_epoch, commit=commit, timestamp_ms=self._clock.wall_ms()
        )
        offset = self._commits.end_offset
        place_frame(batch, offset, self._log.epoch)
        frame = frame_of(batch, offset)
        note = _Note([frame], is_abort=not commit)
        self._queue(CommitEntry((batch,), len(batch), offset + 1, -1, note))
        self._producers.note(frame)
        return offset

    def _queue(self, entry: CommitEntry[_Note]) -> None:
        moves_log_start = entry.log_start_offset >= 0  # allowed: the way past a damage
        try:
            if self._corruption is not None and not moves_log_start:
                raise self._corruption.with_traceback(None)
            self._commits.append(entry)
        except (LogFullError, CorruptLogError) as error:
            raise self._storage_error(error) from error

    async def _move_log_start(self, target: int) -> None:
        if target > self.log_start_offset:
            offset = self._commits.end_offset
            marker = encode_log_start(
                target,
                at_offset=offset,
                leader_epoch=self._log.epoch,
                timestamp_ms=self._clock.wall_ms(),
            )
            self._queue(
                CommitEntry((marker,), len(marker), offset, target, _Note([], is_abort=False))
            )
            await self._commits.committed(offset)
        corruption = self._corruption
        if corruption is not None and corruption.offset < self.log_start_offset:
            await self._reload()
        if self._is_cut_short:
            return  # what a snapshot must keep of the producers is not known: no file goes
        gone: list[Segment] = []
        await self._commits.between_commits(lambda: gone.extend(self._log.prune()))
        self._index.drop(gone)
        self._transactions.forget_before(self.log_start_offset)

    async def _reload(self) -> None:
        """Check the log again after its start has passed a corrupt place."""
        found: list[Loaded] = []

        def load() -> None:
            self._log.sync_end()
            found.append(load_records(self._disk, self._log, self._settings))

        await self._commits.between_commits(load)
        self._take(found[0])
        self.scrub.go_on(found[0].unverified)
        if self._corruption is None:
            _log.warning(
                "log %s: what was damaged is deleted; records are taken again", self._log.path
            )
        for callback in self._callbacks:
            callback()

    def _on_committed(self, entries: list[CommitEntry[_Note]], place: LogPosition) -> None:
        if not self._is_cut_short:  # else it was only a log start
            self._note_committed(entries, place)
        for callback in self._callbacks:
            callback()

    def _note_committed(self, entries: list[CommitEntry[_Note]], place: LogPosition) -> None:
        self._to_scan_bytes += sum(entry.size_bytes for entry in entries)
        index = self._index.open_segment(place.segment)
        position = place.position
        now_ms = self._clock.now_ms()
        for entry in entries:
            for frame in entry.note.frames:
                index.add(
                    position=position + frame.position,
                    size_bytes=frame.size_bytes,
                    base=frame.base_offset,
                    end=frame.end_offset,
                    max_ms=frame.max_timestamp_ms,
                )
                self._transactions.note(frame, is_abort=entry.note.is_abort, now_ms=now_ms)
                self._durable_producers.note(frame)
            self._recent.add(entry.note.frames, entry.data, is_abort=entry.note.is_abort)
            position += entry.size_bytes
        index.end_position = position
        self._high_watermark = entries[-1].end_offset

    # ---- snapshots and damage ---------------------------------------------------------------

    def _write_snapshot(self, segment: Segment) -> None:
        """Keep what the log means up to its end; between commits, in the pool."""
        try:
            write_snapshot(
                self._disk,
                self._log.path,
                segment,
                self._index,
                self._durable_producers,
                self._transactions,
            )
        except OSError as error:
            _log.warning("log %s: no snapshot was written: %s", self._log.path, error)
        else:
            self._to_scan_bytes = 0

    async def _found(self, error: CorruptLogError) -> None:
        """Damage was found while the log is open."""
        resume_offset = await self._disk.run(
            partial(resume_after, self._disk, self._log.path, tuple(self._log.segments), error)
        )
        if error.offset >= self.log_start_offset:
            self._note_corruption(error, resume_offset)

    def _note_corruption(self, error: CorruptLogError, resume_offset: int) -> None:
        """Serve only records before the corruption from now on, write nothing, and log it once."""
        if self._corruption is None:
            self._resume_offset = resume_offset
            _log.error(
                "committed records are damaged: %s; %s", error, corruption_advice(resume_offset)
            )
        self._corruption = error

    def _storage_error(self, error: Exception) -> RefusedError:
        advice = ""
        if isinstance(error, CorruptLogError):
            advice = f"; {corruption_advice(self._resume_offset)}"
        return RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, f"{error}{advice}")
