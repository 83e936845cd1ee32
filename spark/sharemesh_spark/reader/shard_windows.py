"""A shard's log as a sequence of column windows, small enough for the processor's caches."""

from collections.abc import Iterator

import numpy as np

from sharemesh.codec.batch_frame import Frame
from sharemesh.codec.log_chain import LogBytesError, part_frames
from sharemesh_spark.reader.data_directory import (
    LogPart,
    ShardImage,
    UnreadableLogError,
    unreadable,
)
from sharemesh_spark.reader.protobuf_templates import ValueTemplates
from sharemesh_spark.reader.record_layout import BrokenRecordsError, record_places
from sharemesh_spark.reader.state_columns import StateColumns, UnreadableValueError, state_columns
from sharemesh_spark.reader.varints import PADDING_BYTES, Bytes

RECORDS_PER_WINDOW = 16_384
"""Measured: columns of 128 KiB; four times as many cost twice the time for each record."""

RECORDS_PER_GROUP = 2 * RECORDS_PER_WINDOW
"""Records whose beginnings are looked for together, so many that what NumPy costs for each call
does not count, and so few that they are still in the processor's caches when they are read."""

_GROUP_BYTES_MAX = 64 * 1024 * 1024


def windows(
    image: ShardImage, from_offset: int = 0, shapes: ValueTemplates | None = None
) -> Iterator[StateColumns]:
    """Yield all state records of ``[from_offset, end)`` as columns, oldest first.

    Segments that end below ``from_offset`` are not touched.

    Raises:
        UnreadableLogError: Corruption, named as the writer's recovery names it.
    """
    first = max(from_offset, image.start_offset)
    shapes = shapes or ValueTemplates()
    for part in image.parts:
        if part.place.end_offset <= first:
            continue
        try:
            yield from _of_part(part, image, first, shapes)
        except LogBytesError as error:
            raise unreadable(part, error) from error
        except (BrokenRecordsError, UnreadableValueError) as error:
            path = part.folder / part.place.name.file_name
            raise UnreadableLogError(f"{path}, {error}; restore the file from a backup") from error


def _of_part(
    part: LogPart, image: ShardImage, first: int, shapes: ValueTemplates
) -> Iterator[StateColumns]:
    frames = part_frames(part.place, part.data)
    start = part.place.start_position
    for some in _with_room(_grouped(frames, first), start + len(part.data)):
        low = some[0].position - start
        high = some[-1].position + some[-1].size_bytes - start
        buffer = Bytes(part.data, low, high)
        for places in record_places(
            buffer, some, start_position=start + low, records_about=RECORDS_PER_WINDOW
        ):
            wanted = (places.offset >= first) & (places.offset < image.end_offset)
            chosen = places if wanted.all() else places.selected(np.flatnonzero(wanted))
            if len(chosen):
                columns = state_columns(buffer, chosen, shapes)
                if len(columns):
                    yield columns


def _with_room(groups: Iterator[list[Frame]], end: int) -> Iterator[list[Frame]]:
    """Keep the last record batch of a file apart: only it has no room behind it to be read in."""
    for group in groups:
        last = group[-1]
        if len(group) > 1 and last.position + last.size_bytes + PADDING_BYTES > end:
            yield group[:-1]
            yield [last]
        else:
            yield group


def _grouped(frames: Iterator[Frame], first: int) -> Iterator[list[Frame]]:
    group: list[Frame] = []
    records = size = 0
    for frame in frames:
        if frame.end_offset <= first:
            continue
        group.append(frame)
        records += frame.record_count
        size += frame.size_bytes
        if records >= RECORDS_PER_GROUP or size >= _GROUP_BYTES_MAX:
            yield group
            group, records, size = [], 0, 0
    if group:
        yield group
