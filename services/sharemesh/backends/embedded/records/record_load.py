"""What a record log remembers in memory, rebuilt from snapshots and headers at a take-over."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sharemesh.backends.embedded.owned.damaged_log import next_whole, resume_after
from sharemesh.backends.embedded.owned.offset_index import OffsetIndex, SegmentIndex
from sharemesh.backends.embedded.owned.owned_log import OwnedLog
from sharemesh.backends.embedded.owned.segments import (
    Segment,
    corrupt,
    read_whole_frames,
    scan_headers,
)
from sharemesh.backends.embedded.records.log_snapshot import RecordLogSnapshot, read_snapshot
from sharemesh.backends.embedded.records.producers import Producers, Transactions
from sharemesh.backends.embedded.records.scrub import Unverified, newest_part, verify
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.batch_frame import CONTROL, Frame
from sharemesh.codec.control_batches import is_abort_marker
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError


@dataclass(slots=True)
class Loaded:
    """Index, producers and transactions up to ``end_offset``: the end, or a corruption.

    ``resume_offset`` is the log start behind that corruption. ``unverified`` are parts whose
    checksums were not checked, oldest first. ``scanned_bytes`` is what no snapshot covered.
    """

    index: OffsetIndex
    producers: Producers
    transactions: Transactions
    end_offset: int
    corruption: CorruptLogError | None = None
    resume_offset: int = -1
    unverified: list[Unverified] = field(default_factory=list)
    scanned_bytes: int = 0


def load_records(disk: Disk, log: OwnedLog, settings: LogSettings) -> Loaded:
    """Load the log, and check the checksums of its newest part (LOG-14). Blocks.

    What lies below the log start may be corrupt: it is never read.
    """
    loaded = Loaded(
        OffsetIndex(settings.index_interval_bytes),
        Producers(),
        Transactions(),
        log.committed_end_offset,
    )
    loader = _Loader(disk, log, loaded)
    try:
        for segment in log.segments:
            loader.load(segment)
    except CorruptLogError as error:
        loaded.corruption = error
    loader.settle()
    parts = [
        Unverified(index, *index.begin, index.end_position)
        for index in reversed(loaded.index.segments)
        if index.end_offset > log.log_start_offset
    ]
    now, later = newest_part(parts, settings.verify_open_bytes)
    loaded.unverified = later[::-1]  # so that of two damages the first is found first
    for part in now:
        try:
            verify(disk, log.path, part)
        except CorruptLogError as error:
            if loaded.corruption is None or error.offset < loaded.corruption.offset:
                loaded.corruption = error
    if loaded.corruption is not None:
        loaded.end_offset = max(loaded.corruption.offset, log.log_start_offset)
        loaded.resume_offset = resume_after(disk, log.path, log.segments, loaded.corruption)
    loaded.transactions.forget_before(log.log_start_offset)
    return loaded


class _Loader:
    """Goes through the segments, oldest first."""

    def __init__(self, disk: Disk, log: OwnedLog, loaded: Loaded) -> None:
        self._disk = disk
        self._log = log
        self._loaded = loaded
        self._snapshot: RecordLogSnapshot | None = (
            None  # the newest one, whose producers are not taken yet
        )

    def load(self, segment: Segment) -> None:
        """Load the next segment.

        Raises:
            CorruptLogError: Its frames cannot be walked; what lies before is loaded.
        """
        log, loaded = self._log, self._loaded
        file = log.file_of(segment)
        if segment.problem:
            if segment.end_offset > max(segment.base_offset, log.log_start_offset):
                raise corrupt(file, 0, segment.base_offset, segment.problem)
            return
        snapshot = read_snapshot(
            self._disk, log.path, segment, interval_bytes=loaded.index.interval_bytes
        )
        if snapshot is None:
            index = loaded.index.open_segment(segment)
        else:
            index = snapshot.index
            loaded.index.take(index)
            loaded.transactions.restore(snapshot.open_transactions, snapshot.aborted)
            self._snapshot = snapshot
        self._scan(segment, index)
        if segment.base_offset < log.log_start_offset < segment.end_offset:
            self._begin(segment, index)

    def settle(self) -> None:
        """Take over the producers of the newest snapshot, if nothing was scanned since."""
        if self._snapshot is not None:
            self._loaded.producers = self._snapshot.producers()
            self._snapshot = None

    def _scan(self, segment: Segment, index: SegmentIndex) -> None:
        """Walk what no snapshot covers."""
        loaded, file = self._loaded, self._log.file_of(segment)
        loaded.scanned_bytes += segment.end_position - index.end_position
        for frame in self._frames(segment, index.end_position, index.end_offset):
            index.add(
                position=frame.position,
                size_bytes=frame.size_bytes,
                base=frame.base_offset,
                end=frame.end_offset,
                max_ms=frame.max_timestamp_ms,
            )
            if frame.producer_id >= 0:
                self.settle()
                loaded.producers.note(frame)
                loaded.transactions.note(frame, is_abort=_is_abort(self._disk, file, frame))
        index.end_offset, index.end_position = segment.end_offset, segment.end_position

    def _frames(self, segment: Segment, position: int, offset: int) -> Iterator[Frame]:
        """Yield the frames that hold offsets; damage that the log start has passed is skipped.

        Each is held back until the next one fits: a length or span that is wrong shows only there.
        """
        begin: tuple[int, int] | None = (position, offset)
        while begin is not None:
            held: Frame | None = None
            try:
                for frame in self._headers(segment, begin):
                    if held is not None and not held.is_marker:
                        yield held
                    held = frame
            except CorruptLogError as error:
                blame = self._blame(segment, held)
                if blame is not None:
                    held = None
                if held is not None and not held.is_marker:
                    yield held
                begin = self._behind(segment, blame or error)
            else:
                if held is not None and not held.is_marker:
                    yield held
                return

    def _headers(self, segment: Segment, begin: tuple[int, int]) -> Iterator[Frame]:
        for frames in scan_headers(
            self._disk,
            self._log.path,
            segment.name,
            end_position=segment.end_position,
            end_offset=segment.end_offset,
            begin=begin,
        ):
            yield from frames

    def _blame(self, segment: Segment, last: Frame | None) -> CorruptLogError | None:
        """Return what is wrong with the last frame: its length may have led astray."""
        if last is None:
            return None
        try:
            read_whole_frames(
                self._disk,
                self._log.file_of(segment),
                segment,
                position=last.position,
                offset=last.base_offset,
                window_bytes=last.size_bytes,
            )
        except CorruptLogError as error:
            return error
        return None

    def _behind(self, segment: Segment, error: CorruptLogError) -> tuple[int, int] | None:
        """Return where to resume, or None if nothing relevant follows; else raise the error."""
        log_start = self._log.log_start_offset
        if error.offset >= log_start:
            raise error
        if segment.end_offset <= log_start:
            return None
        found = next_whole(
            self._disk, self._log.file_of(segment), segment, error.position, error.offset
        )
        if found is None or found[1] > log_start:
            raise error
        return found

    def _begin(self, segment: Segment, index: SegmentIndex) -> None:
        """Find the frame that holds the log start: nothing before it is read any more."""
        log_start = self._log.log_start_offset
        offset, position = index.floor(log_start)
        for frame in self._frames(segment, position, offset):
            if frame.end_offset > log_start:
                index.begin_at(frame.base_offset, frame.position)
                return


def _is_abort(disk: Disk, file: str, frame: Frame) -> bool:
    if not frame.attributes & CONTROL:
        return False
    return is_abort_marker(disk.read(file, frame.position, frame.size_bytes))
