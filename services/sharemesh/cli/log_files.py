"""Reads a log directory as a stranger may: committed end first, then the chain (LOG-13)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sharemesh.cli.session import CommandError
from sharemesh.codec.committed_end import CommittedEnd, decode_committed_end
from sharemesh.codec.log_chain import (
    Chain,
    ChainCorruptError,
    ReadablePart,
    StartOverError,
    readable_parts,
    resolve_chain,
    starting_offset,
)
from sharemesh.codec.log_read import part_records
from sharemesh.codec.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentFormatError,
    SegmentHeader,
    SegmentName,
    decode_segment_header,
    end_epochs,
    end_name,
    segment_names,
)

READ_TRIES = 20

LogRecord = tuple[bytes | None, bytes | None, int, int]
"""Key, value, offset, timestamp in ms."""


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """One log as it was when it was looked at; offsets ``log_start_offset..end_offset - 1``."""

    directory: Path
    end: CommittedEnd
    chain: Chain
    parts: tuple[ReadablePart, ...]
    log_start_offset: int

    def records(self) -> Iterator[list[LogRecord]]:
        """Yield the records, batch by batch, oldest first.

        Raises:
            LogBytesError: Bytes below the committed end are not what they must be.
            FileNotFoundError: The owner deleted a segment meanwhile.
        """
        for part in self.parts:
            with (self.directory / part.name.file_name).open("rb") as file:
                file.seek(part.start_position)
                size = -1 if part.end_position is None else part.end_position - part.start_position
                data = file.read(size)
            yield from part_records(part, data)


def open_log(directory: Path) -> OpenedLog | None:
    """Return the log in a directory; None if nothing was ever committed in it.

    Raises:
        CommandError: It is not readable, damaged, or changes too fast.
    """
    problem = ""
    for _ in range(READ_TRIES):
        try:
            return _open_once(directory)
        except (StartOverError, FileNotFoundError) as error:
            problem = str(error)
        except ChainCorruptError as error:
            raise CommandError(f"{directory}: corrupt: {error}") from error
        except OSError as error:
            raise CommandError(f"cannot read {directory}: {error.strerror}") from error
    raise CommandError(f"{directory} does not hold still: {problem}; try again")


def _open_once(directory: Path) -> OpenedLog | None:
    epochs = end_epochs(_listing(directory))
    if not epochs:
        return None
    end = decode_committed_end((directory / end_name(max(epochs))).read_bytes())
    if end is None:
        raise StartOverError(f"{end_name(max(epochs))} is half written")
    headers = {name: _header(directory, name) for name in segment_names(_listing(directory))}
    chain = resolve_chain(headers)
    parts = readable_parts(chain, end)
    return OpenedLog(directory, end, chain, parts, starting_offset(chain, end))


def _listing(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()]


def _header(directory: Path, name: SegmentName) -> SegmentHeader | SegmentFormatError:
    with (directory / name.file_name).open("rb") as file:
        data = file.read(SEGMENT_HEADER_BYTES)
    try:
        return decode_segment_header(data, name)
    except SegmentFormatError as error:
        return error
