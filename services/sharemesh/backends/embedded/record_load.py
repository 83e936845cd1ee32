"""What a record log remembers in memory, rebuilt from batch headers when it is taken over."""

from dataclasses import dataclass

from sharemesh.backends.embedded.offset_index import OffsetIndex
from sharemesh.backends.embedded.owned_log import OwnedLog
from sharemesh.backends.embedded.producers import Producers
from sharemesh.backends.embedded.segment_scan import scan_headers
from sharemesh.backends.embedded.segments import Segment
from sharemesh.backends.embedded.transactions import Transactions
from sharemesh.codec.batch_frame import CONTROL, Frame
from sharemesh.codec.txn_marker import is_abort_marker
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError


@dataclass(slots=True)
class Loaded:
    """Index, producers and transactions up to ``end_offset``: the end, or a corruption."""

    index: OffsetIndex
    producers: Producers
    transactions: Transactions
    end_offset: int
    corruption: CorruptLogError | None


def load_records(disk: Disk, log: OwnedLog, *, interval_bytes: int) -> Loaded:
    """Scan the headers of the whole log. Blocks."""
    loaded = Loaded(
        OffsetIndex(interval_bytes),
        Producers(),
        Transactions(),
        log.committed_end_offset,
        log.corruption,
    )
    for segment in log.segments:
        try:
            _load_segment(disk, log, segment, loaded)
        except CorruptLogError as error:
            loaded.corruption, loaded.end_offset = error, error.offset
            break
    loaded.transactions.forget_before(log.log_start_offset)
    return loaded


def _load_segment(disk: Disk, log: OwnedLog, segment: Segment, loaded: Loaded) -> None:
    index = loaded.index.open_segment(segment)
    for frames in scan_headers(
        disk,
        log.path,
        segment.name,
        end_position=segment.end_position,
        end_offset=segment.end_offset,
    ):
        for frame in frames:
            if not frame.is_marker:
                index.add(
                    position=frame.position,
                    size_bytes=frame.size_bytes,
                    base=frame.base_offset,
                    end=frame.end_offset,
                    max_ms=frame.max_timestamp_ms,
                )
                if frame.producer_id >= 0:
                    loaded.producers.note(frame)
                    loaded.transactions.note(
                        frame, is_abort=_is_abort(disk, log.file_of(segment), frame)
                    )
    index.end_position = segment.end_position


def _is_abort(disk: Disk, file: str, frame: Frame) -> bool:
    if not frame.attributes & CONTROL:
        return False
    return is_abort_marker(disk.read(file, frame.position, frame.size_bytes))
