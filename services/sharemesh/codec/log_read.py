"""Reading a part of a log with everything checked, from bytes (LOG-13, LOG-14). Pure.

``readable_parts`` says which bytes to read; here they become frames, or a report of what is wrong
and where. A part that ends early is reported too: fewer records are never mistaken for all.
"""

from collections.abc import Iterator

from sharemesh.codec.batch_frame import Frame, walk_frames
from sharemesh.codec.log_chain import ReadablePart
from sharemesh.codec.record_set import RecordSetError, decode_plain_records

_CHECKED_BYTES = 1024 * 1024
"""So much is checked before its frames are yielded: it is still in the processor's caches then."""


class LogBytesError(Exception):
    """Bytes below the committed end are not what they must be; whatever precedes is good."""

    def __init__(self, file_name: str, position: int, offset: int, problem: str) -> None:
        super().__init__(f"{file_name}, position {position}, offset {offset}: {problem}")
        self.file_name = file_name
        self.position = position
        self.offset = offset
        self.problem = problem


def part_frames(part: ReadablePart, data: bytes | memoryview) -> Iterator[Frame]:
    """Yield the record batches of one part, oldest first, without the log's own markers.

    ``frame.position`` counts from the beginning of the file; subtract ``part.start_position``
    to find it in ``data``.

    Args:
        part: From ``readable_parts``.
        data: The file's bytes from ``part.start_position``, up to ``part.end_position`` or, if
            that is None, up to the end of the file.

    Raises:
        LogBytesError: Invalid bytes, or too few.
    """
    end = part.end_position
    limit = part.start_position + len(data) if end is None else end
    view = memoryview(data)
    at, offset, room = 0, part.base_offset, _CHECKED_BYTES
    while True:
        walk = walk_frames(
            view[at : at + room],
            start=part.start_position + at,
            limit=limit,
            base_offset=offset,
            leader_epoch=part.name.epoch,
            check_crc=True,
        )
        for frame in walk.frames:
            if frame.end_offset > part.end_offset:
                break
            offset = frame.end_offset
            if not frame.is_marker:
                yield frame
        if walk.problem or walk.end_offset > part.end_offset or at + room >= len(view):
            break
        room = _CHECKED_BYTES if walk.frames else 2 * room
        at = walk.position - part.start_position
    if offset < part.end_offset:
        problem = walk.problem or f"the file ends here, and offset {part.end_offset} is committed"
        raise LogBytesError(part.name.file_name, walk.position, walk.end_offset, problem)


def part_records(
    part: ReadablePart, data: bytes | memoryview
) -> Iterator[list[tuple[bytes | None, bytes | None, int, int]]]:
    """Yield (key, value, offset, timestamp in ms) of each batch of a shard log's part.

    Raises:
        LogBytesError: Invalid bytes, or too few.
    """
    view = memoryview(data)
    for frame in part_frames(part, data):
        at = frame.position - part.start_position
        try:
            yield decode_plain_records(view[at : at + frame.size_bytes])
        except RecordSetError as error:
            raise LogBytesError(
                part.name.file_name, frame.position, frame.base_offset, str(error)
            ) from error
