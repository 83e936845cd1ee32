"""Reads a log directory as a stranger may: committed end first, then the chain (LOG-13)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sharemesh.cli.session import CommandError
from sharemesh.codec.log_chain import (
    ChainCorruptError,
    ReadableLog,
    StartOverError,
    part_records,
    readable_log,
    until_stable,
)

LogRecord = tuple[bytes | None, bytes | None, int, int]
"""Key, value, offset, timestamp in ms."""


@dataclass(frozen=True, slots=True)
class OpenedLog(ReadableLog):
    """One log as it was when it was opened."""

    directory: Path

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

    def head(name: str, size: int) -> bytes:
        with (directory / name).open("rb") as file:
            return file.read(size)

    def names() -> list[str]:
        return [entry.name for entry in directory.iterdir()]

    try:
        log = until_stable(lambda: readable_log(names, head))
    except StartOverError as error:
        raise CommandError(f"{directory} does not hold still: {error}; try again") from error
    except ChainCorruptError as error:
        raise CommandError(f"{directory}: corrupt: {error}") from error
    except OSError as error:
        raise CommandError(f"cannot read {directory}: {error.strerror}") from error
    if log is None:
        return None
    return OpenedLog(log.end, log.chain, log.parts, log.start_offset, directory)
