"""When records were appended: the headers of the record batches in the record logs."""

from collections.abc import Iterator
from pathlib import Path

from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.log_layout import RECORDS
from sharemesh.domain.ids import TopicId
from sharemesh.domain.share_state.key_text import format_topic_id
from sharemesh_spark.reader.data_directory import read_log

_TOPIC_HEX_LENGTH = 32


def produced_rows(data: Path) -> list[tuple[str, int, int, int, int]]:
    """Return (topic id, partition, first offset, last offset, timestamp in ms) of each batch.

    Raises:
        UnreadableLogError: A record log cannot be read.
    """
    return list(_rows(data))


def _rows(data: Path) -> Iterator[tuple[str, int, int, int, int]]:
    for folder in sorted((data / RECORDS).glob("*/*")):
        topic, partition = folder.parent.name, folder.name
        if len(topic) != _TOPIC_HEX_LENGTH or not partition.isdigit():
            continue
        topic_id = format_topic_id(TopicId(bytes.fromhex(topic)))
        for part in read_log(folder, int(partition)).parts:
            place = part.place
            walk = walk_frames(
                part.data,
                start=place.start_position,
                limit=place.start_position + len(part.data),
                base_offset=place.base_offset,
                leader_epoch=None,
                check_crc=False,  # only headers are used
            )
            for frame in walk.frames:
                if frame.end_offset > place.end_offset:
                    break
                if not frame.is_marker:
                    yield (
                        topic_id,
                        int(partition),
                        frame.base_offset,
                        frame.end_offset - 1,
                        frame.max_timestamp_ms,
                    )
