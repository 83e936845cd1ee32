"""Share control records of the old design in a data partition's segments (spec OLD-1, OLD-2).

A segment is Kafka's: record batches v2, one behind the other. Those with the control flag hold
records whose key is (version, type) as int16, type 5 for a checkpoint and 6 for a delta. Values
are written as Kafka's own control records are: version, then the fields in the order of the rules,
with the types that the same fields have today; numbers big-endian, lengths in front.
"""

import struct
from collections.abc import Iterator

from sharemesh.codec.batch_frame import CONTROL, Frame, walk_frames
from sharemesh.codec.record_set import RecordSetError, decode_plain_records
from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_state.old_control_records import (
    OldRecord,
    OldRecordsError,
    OldState,
    ShareCheckpoint,
    ShareDelta,
)

CHECKPOINT_TYPE = 5
DELTA_TYPE = 6
VERSION = 0

_KEY = struct.Struct(">hh")  # version, type
_HEAD = struct.Struct(">hh")  # version, length of the group id
_CHECKPOINT = struct.Struct(">iqqi")  # epoch, start and end offset, number of states
_DELTA = struct.Struct(">iqi")  # epoch, back offset, number of states
_STATE = struct.Struct(">qqbh")  # base and last offset, state, delivery count


def read_old_records(segment: bytes, name: str) -> Iterator[OldRecord]:
    """Yield the share control records of one segment in the order of their offsets.

    Batches of applications and other control records are passed over (OLD-8); so are zeros at the
    end, which a file that was made larger beforehand has.

    Args:
        segment: The whole file.
        name: What errors call it.

    Raises:
        OldRecordsError: Bytes that are no record batch, a checksum that does not match, a record
            of another version or with too few bytes; the message names the position or offset.
    """
    view = memoryview(segment)
    for frame in _frames(view, name):
        if not frame.attributes & CONTROL or frame.is_marker:
            continue
        try:
            records = decode_plain_records(view[frame.position : frame.position + frame.size_bytes])
        except RecordSetError as error:
            raise OldRecordsError(f"{name}, position {frame.position}: {error}") from error
        for key, value, offset, _ in records:
            found = _decoded(key or b"", value or b"", offset, name)
            if found is not None:
                yield found


def _frames(view: memoryview, name: str) -> Iterator[Frame]:
    """Yield all batches; between two of them offsets may be missing (compaction)."""
    position = 0
    while position < len(view):
        walk = walk_frames(
            view[position:],
            start=position,
            limit=len(view),
            base_offset=None,
            leader_epoch=None,
            check_crc=True,
        )
        if not walk.frames:
            if any(view[position:]):
                raise OldRecordsError(f"{name}, position {position}: {walk.problem}")
            return
        yield from walk.frames
        position = walk.position


def _decoded(key: bytes, value: bytes, offset: int, name: str) -> OldRecord | None:
    if len(key) < _KEY.size:
        return None
    _, kind = _KEY.unpack_from(key)
    if kind not in (CHECKPOINT_TYPE, DELTA_TYPE):
        return None
    where = f"{name}: control record at offset {offset}"
    try:
        return _checkpoint(value, offset) if kind == CHECKPOINT_TYPE else _delta(value, offset)
    except (struct.error, UnicodeDecodeError) as error:
        raise OldRecordsError(f"{where} cannot be read: {error}") from error
    except OldRecordsError as error:
        raise OldRecordsError(f"{where} {error}") from error


def _checkpoint(value: bytes, offset: int) -> ShareCheckpoint:
    group_id, at = _group_id(value)
    epoch, start_offset, end_offset, count = _CHECKPOINT.unpack_from(value, at)
    states = _states(value, at + _CHECKPOINT.size, count)
    return ShareCheckpoint(offset, group_id, epoch, start_offset, end_offset, states)


def _delta(value: bytes, offset: int) -> ShareDelta:
    group_id, at = _group_id(value)
    epoch, back_offset, count = _DELTA.unpack_from(value, at)
    states = _states(value, at + _DELTA.size, count)
    return ShareDelta(offset, group_id, epoch, back_offset, states)


def _group_id(value: bytes) -> tuple[GroupId, int]:
    """Return the group and where it ends."""
    version, length = _HEAD.unpack_from(value)
    if version != VERSION:
        raise OldRecordsError(f"has version {version}, known is {VERSION}")
    end = _HEAD.size + length
    if not _HEAD.size < end <= len(value):
        raise OldRecordsError(f"has a group id of {length} bytes")
    return GroupId(value[_HEAD.size : end].decode()), end


def _states(value: bytes, at: int, count: int) -> tuple[OldState, ...]:
    if count < 0 or len(value) - at != count * _STATE.size:
        raise OldRecordsError(f"says {count} states, and {len(value) - at} bytes follow")
    return tuple(OldState(*each) for each in _STATE.iter_unpack(value[at:]))
