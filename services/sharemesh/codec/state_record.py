"""Records of the share state log: domain <-> bytes (spec SC-21, LOG-3).

The key of a log record is the share-partition key text (SC-1), empty for records of the shard
itself; the value is a ``sharemesh.v1.ShareStateRecord``, for tombstones too, so that they can say
when and why. An absent value counts as a tombstone that says nothing.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sharemesh.codec.packed_batches import decode_packed, encode_packed
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import (
    GroupId,
    MemberId,
    SharePartitionKey,
    TopicId,
    format_key,
    parse_key,
)
from sharemesh.domain.share_state.records import (
    UNKNOWN_START_OFFSET,
    ArchivedCounts,
    EpochFloor,
    Generation,
    Origin,
    SnapshotPart,
    StateRecord,
    StateSnapshot,
    StateUpdate,
    Tombstone,
)
from sharemesh.domain.share_state.snapshot_parts import packed_whatever
from sharemesh.domain.state_batch import StateBatch
from sharemesh.v1.common_pb2 import ArchivedCount
from sharemesh.v1.common_pb2 import ArchivedCounts as ArchivedMessage
from sharemesh.v1.common_pb2 import StateBatch as StateBatchMessage
from sharemesh.v1.state_record_pb2 import GenerationPointer, ShareStatePart, ShareStateRecord

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

FORMAT_VERSION = 1
_STATES = {state.value: state for state in DeliveryState}
_CAUSES = {cause.value: cause for cause in Cause}


PART_PREFIX = b"\0"
"""How the value of a part begins: no protobuf message does, so older readers fail (WIN-14)."""

PART_KEY_SUFFIX = b" (part of a large state: this release is too old to read it, upgrade it)"
"""What their message says, for they name the key."""


class UnreadableRecordError(Exception):
    """The bytes are no state record; the message says which key and why."""


def encode_key(record: StateRecord) -> bytes:
    """Return the log key of a record."""
    match record:
        case StateSnapshot() | StateUpdate() | Tombstone():
            return format_key(record.key).encode()
        case SnapshotPart():
            return format_key(record.snapshot.key).encode() + PART_KEY_SUFFIX
        case EpochFloor() | Generation():
            return b""


def encode_value(record: StateRecord) -> bytes:
    """Return the bytes of a record's value."""
    match record:
        case StateUpdate():
            message = _update(record)
        case StateSnapshot():
            message = _snapshot(record)
        case SnapshotPart():
            return _part(record)
        case Tombstone():
            message = ShareStateRecord(
                kind=ShareStateRecord.KIND_TOMBSTONE,
                state_epoch=record.state_epoch,
                leader_epoch_max=record.leader_epoch_max,
                write_timestamp_ms=record.write_timestamp_ms,
            )
            _set_key(message, record.key)
            _set_origin(message, record.origin)
        case EpochFloor():
            message = ShareStateRecord(
                kind=ShareStateRecord.KIND_EPOCH_FLOOR,
                state_epoch_floor=record.state_epoch,
                leader_epoch_floor=record.leader_epoch,
                write_timestamp_ms=record.write_timestamp_ms,
            )
        case Generation():
            message = _generation(record)
    message.format_version = FORMAT_VERSION
    return message.SerializeToString()


def decode_record(key: bytes, value: bytes | None) -> StateRecord | None:
    """Return the record, or None for a kind or version that is not known here (spec SC-22).

    Raises:
        UnreadableRecordError: The value is not a protobuf message, or the key no key text.
    """
    if value is None:
        return Tombstone(_parsed_key(key), -1, -1, 0)
    if value.startswith(PART_PREFIX):
        return _decoded_part(key, value)
    return decode_message(_parsed(key, value))


UPDATE_PREFIX = bytes((0x08, ShareStateRecord.KIND_UPDATE))
"""How the value of an update begins (field 1 is written first): known without parsing it."""


def decode_updates(values: Sequence[bytes]) -> list[StateUpdate]:
    """Return the updates among values that begin with ``UPDATE_PREFIX``, in their order."""
    records = (decode_record(b"", value) for value in values)
    return [record for record in records if isinstance(record, StateUpdate)]


def decode_for(offset: int, key: bytes, value: bytes | None) -> StateRecord | None:
    """Return a record for the sake of one offset: a snapshot holds no other batch than its own.

    Raises:
        UnreadableRecordError: As ``decode_record``.
    """
    if value is None:
        return decode_record(key, value)
    message = _parsed(key, value)
    if message.kind == ShareStateRecord.KIND_SNAPSHOT:
        batches = message.state_batches  # sorted, and thousands of them
        at = bisect_right(batches, offset, key=lambda each: each.first_offset)
        del batches[at:]
        del batches[: max(0, at - 1)]
    return decode_message(message)


def decode_message(message: ShareStateRecord) -> StateRecord | None:
    """Return the record that a message means, or None for an unknown kind or version."""
    if message.format_version > FORMAT_VERSION:
        return None
    kind = message.kind
    if kind == ShareStateRecord.KIND_UPDATE:
        return _decoded_update(message)
    if kind == ShareStateRecord.KIND_SNAPSHOT:
        return _decoded_snapshot(message)
    if kind == ShareStateRecord.KIND_TOMBSTONE:
        return Tombstone(
            _key(message),
            message.state_epoch,
            message.leader_epoch_max,
            message.write_timestamp_ms,
            _origin(message),
        )
    if kind == ShareStateRecord.KIND_EPOCH_FLOOR:
        return EpochFloor(
            message.state_epoch_floor, message.leader_epoch_floor, message.write_timestamp_ms
        )
    if kind == ShareStateRecord.KIND_GENERATION:
        return _decoded_generation(message)
    return None


def put_batches(
    target: "RepeatedCompositeFieldContainer[StateBatchMessage]", batches: Iterable[StateBatch]
) -> None:
    """Add batches to a field of a message: made in place, which costs half of a list of them."""
    add = target.add
    for first, last, state, count, cause, not_before_ms, acquired_at_ms in batches:
        message = add(
            first_offset=first,
            last_offset=last,
            delivery_state=state,
            delivery_count=count,
            cause=cause,
            acquired_at_ms=acquired_at_ms,
        )
        if not_before_ms:
            message.not_before_ms = not_before_ms


def decode_batches(messages: Iterable[StateBatchMessage]) -> tuple[StateBatch, ...]:
    """Return batches; an unknown delivery state stays a plain number, for a check to refuse."""
    states, causes, unknown, new = _STATES, _CAUSES, Cause.UNSPECIFIED, tuple.__new__
    return tuple(
        [
            new(
                StateBatch,
                (
                    message.first_offset,
                    message.last_offset,
                    states.get(state := message.delivery_state, state),
                    message.delivery_count,
                    causes.get(message.cause, unknown),
                    message.not_before_ms,
                    message.acquired_at_ms,
                ),
            )
            for message in messages
        ]
    )


def encode_archived(archived: ArchivedCounts) -> ArchivedMessage:
    """Return the message of archived counts."""
    counts = [ArchivedCount(cause=cause, count=count) for cause, count in archived.counts]
    return ArchivedMessage(since_ms=archived.since_ms, counts=counts)


def decode_archived(message: ArchivedMessage) -> ArchivedCounts:
    """Return archived counts; those of causes that are not known here count together."""
    counts: Counter[Cause] = Counter()
    for each in message.counts:
        counts[decode_cause(each.cause)] += each.count
    return ArchivedCounts(message.since_ms).plus(counts)


def decode_cause(number: int) -> Cause:
    """Return the cause, UNSPECIFIED for a number that is not known here."""
    return _CAUSES.get(number, Cause.UNSPECIFIED)


def decode_state(number: int) -> DeliveryState | None:
    """Return the delivery state, None for a number that is not known here."""
    return _STATES.get(number)


def _update(record: StateUpdate) -> ShareStateRecord:
    message = ShareStateRecord(
        kind=ShareStateRecord.KIND_UPDATE,
        snapshot_epoch=record.snapshot_epoch,
        state_epoch=record.state_epoch,
        leader_epoch=record.leader_epoch,
        start_offset=record.start_offset,
        delivery_complete_count=record.delivery_complete_count,
        write_timestamp_ms=record.write_timestamp_ms,
    )
    put_batches(message.state_batches, record.batches)
    _set_key(message, record.key)
    _set_origin(message, record.origin)
    _set_archived(message, record.archived)
    return message


def _snapshot(record: StateSnapshot) -> ShareStateRecord:
    message = ShareStateRecord(
        kind=ShareStateRecord.KIND_SNAPSHOT,
        snapshot_epoch=record.snapshot_epoch,
        state_epoch=record.state_epoch,
        leader_epoch=record.leader_epoch,
        leader_epoch_max=record.leader_epoch_max,
        start_offset=record.start_offset,
        delivery_complete_count=record.delivery_complete_count,
        create_timestamp_ms=record.create_timestamp_ms,
        write_timestamp_ms=record.write_timestamp_ms,
    )
    put_batches(message.state_batches, record.batches)
    put_batches(message.changed_batches, record.changed)
    if record.initial_start_offset != UNKNOWN_START_OFFSET:
        message.initial_start_offset = record.initial_start_offset
    _set_key(message, record.key)
    _set_origin(message, record.origin)
    _set_archived(message, record.archived)
    return message


def _part(record: SnapshotPart) -> bytes:
    snapshot = _snapshot(record.snapshot)
    snapshot.format_version = FORMAT_VERSION
    message = ShareStatePart(
        snapshot=snapshot,
        made_ms=record.made_ms,
        part=record.part,
        parts=record.parts,
        batches=encode_packed(packed_whatever(record.batches)),
    )
    return PART_PREFIX + message.SerializeToString()


def _generation(record: Generation) -> ShareStateRecord:
    return ShareStateRecord(
        kind=ShareStateRecord.KIND_GENERATION,
        write_timestamp_ms=record.write_timestamp_ms,
        generation=GenerationPointer(
            generation_id=record.generation_id,
            previous_generation_id=record.previous_generation_id,
            end_offset=record.end_offset,
            path=record.path,
            content_hash=record.content_hash,
            format_version=record.format_version,
            history_end_offset=record.history_end_offset,
        ),
    )


def _decoded_update(message: ShareStateRecord) -> StateUpdate:
    return StateUpdate(
        key=_key(message),
        snapshot_epoch=message.snapshot_epoch,
        state_epoch=message.state_epoch,
        leader_epoch=message.leader_epoch,
        start_offset=message.start_offset,
        delivery_complete_count=message.delivery_complete_count,
        write_timestamp_ms=message.write_timestamp_ms,
        batches=decode_batches(message.state_batches),
        origin=_origin(message),
        archived=_archived(message),
    )


def _decoded_snapshot(message: ShareStateRecord) -> StateSnapshot:
    return StateSnapshot(
        key=_key(message),
        snapshot_epoch=message.snapshot_epoch,
        state_epoch=message.state_epoch,
        leader_epoch=message.leader_epoch,
        leader_epoch_max=message.leader_epoch_max,
        start_offset=message.start_offset,
        delivery_complete_count=message.delivery_complete_count,
        create_timestamp_ms=message.create_timestamp_ms,
        write_timestamp_ms=message.write_timestamp_ms,
        batches=decode_batches(message.state_batches),
        origin=_origin(message),
        changed=decode_batches(message.changed_batches),
        initial_start_offset=(
            message.initial_start_offset
            if message.HasField("initial_start_offset")
            else UNKNOWN_START_OFFSET
        ),
        archived=_archived(message),
    )


def _decoded_part(key: bytes, value: bytes) -> SnapshotPart | None:
    message = ShareStatePart()
    try:
        message.ParseFromString(value[len(PART_PREFIX) :])
        batches = decode_packed(message.batches)
    except Exception as error:
        raise UnreadableRecordError(
            f"state record of key {key!r} cannot be read: {error}"
        ) from error
    snapshot = decode_message(message.snapshot)
    if not isinstance(snapshot, StateSnapshot):
        return None
    return SnapshotPart(snapshot, message.made_ms, message.part, message.parts, batches)


def _decoded_generation(message: ShareStateRecord) -> Generation:
    pointer = message.generation
    return Generation(
        generation_id=pointer.generation_id,
        previous_generation_id=pointer.previous_generation_id,
        end_offset=pointer.end_offset,
        path=pointer.path,
        content_hash=pointer.content_hash,
        format_version=pointer.format_version,
        history_end_offset=(
            pointer.history_end_offset if pointer.HasField("history_end_offset") else -1
        ),
        write_timestamp_ms=message.write_timestamp_ms,
    )


def _set_key(message: ShareStateRecord, key: SharePartitionKey) -> None:
    message.group_id = key.group_id
    message.topic_id = key.topic_id
    message.partition = key.partition


def _key(message: ShareStateRecord) -> SharePartitionKey:
    return SharePartitionKey(
        GroupId(message.group_id), TopicId(message.topic_id), message.partition
    )


def _parsed(key: bytes, value: bytes) -> ShareStateRecord:
    message = ShareStateRecord()
    try:
        message.ParseFromString(value)
    except Exception as error:
        raise UnreadableRecordError(
            f"state record of key {key!r} cannot be read: {error}"
        ) from error
    return message


def _parsed_key(key: bytes) -> SharePartitionKey:
    try:
        return parse_key(key.decode())
    except Exception as error:
        raise UnreadableRecordError(f"key {key!r} is no share partition: {error}") from error


def _set_archived(message: ShareStateRecord, archived: ArchivedCounts | None) -> None:
    if archived is not None:
        message.archived.CopyFrom(encode_archived(archived))


def _archived(message: ShareStateRecord) -> ArchivedCounts | None:
    return decode_archived(message.archived) if message.HasField("archived") else None


def _set_origin(message: ShareStateRecord, origin: Origin) -> None:
    message.cause = origin.cause
    if origin.member_id:
        message.member_id = origin.member_id
    if origin.trace_id:
        message.trace_id, message.span_id = origin.trace_id, origin.span_id


def _origin(message: ShareStateRecord) -> Origin:
    return Origin(
        _CAUSES.get(message.cause, Cause.UNSPECIFIED),
        MemberId(message.member_id),
        message.trace_id,
        message.span_id,
    )
