"""What a log directory holds: the chain and the published end, read in the order of LOG-13."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sharemesh.codec.log_chain import (
    Chain,
    ChainCorruptError,
    SegmentHeaders,
    StartOverError,
    resolve_chain,
    segment_headers,
)
from sharemesh.codec.segment import (
    SLOT_BYTES,
    CommittedEnd,
    SegmentName,
    decode_committed_end,
    end_epochs,
    end_name,
)
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError

START_OVER_MAX = 20


@dataclass(frozen=True, slots=True)
class LogState:
    """Chain and committed end that belong together; ``end`` is None if none is readable.

    ``headers`` are all segments that were found. ``problems`` are those of the chain that cannot
    be read, and why; only a salvaged state has any.
    """

    chain: Chain
    end: CommittedEnd | None
    headers: SegmentHeaders = field(default_factory=dict)
    problems: Mapping[SegmentName, str] = field(default_factory=dict)


def read_log_state(disk: Disk, path: str) -> LogState:
    """Return the state of the log at ``path``. Blocks.

    Raises:
        CorruptLogError: A header on the chain is invalid or a segment is missing.
    """
    last: Exception | None = None
    for _ in range(START_OVER_MAX):
        try:
            return _read_once(disk, path)
        except (StartOverError, FileNotFoundError) as error:
            last = error
        except ChainCorruptError as error:
            raise CorruptLogError(
                f"log {path}: {error}",
                file=f"{path}/{error.file_name}",
                position=0,
                offset=error.offset,
            ) from error
    raise CorruptLogError(f"log {path}: segments of the log are missing: {last}", file=path)


def read_listing(disk: Disk, path: str) -> tuple[CommittedEnd | None, SegmentHeaders]:
    """Return the published end, then the segments with their headers. Blocks.

    Raises:
        FileNotFoundError: A file went away meanwhile: start over.
    """
    end = None
    epochs = end_epochs(disk.list(path))
    if epochs:
        end = decode_committed_end(disk.read(f"{path}/{end_name(epochs[-1])}", 0, 2 * SLOT_BYTES))
    headers = segment_headers(
        disk.list(path), lambda name, size: disk.read(f"{path}/{name}", 0, size)
    )
    return end, headers


def _read_once(disk: Disk, path: str) -> LogState:
    end, headers = read_listing(disk, path)
    chain = resolve_chain(headers)
    if end is not None and (chain.newest is None or chain.newest.name < end.segment):
        raise StartOverError(f"segment {end.segment.file_name} holds the committed end")
    return LogState(chain, end, headers)
