"""How acknowledgements of one partition become ranges on the wire (spec CL-27)."""

from collections.abc import Iterable, Mapping

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.v1.share_leader_pb2 import AcknowledgementBatch

LONG_RUN_LENGTH = 10
"""A run of more equal types than this is cut out into a range of its own."""


def encode(types: Mapping[int, AcknowledgeType]) -> list[AcknowledgementBatch]:
    """Return the ranges of ``types``, which maps offset to acknowledge type, in order of offset."""
    if not types:
        return []
    offsets = sorted(types)
    if offsets[-1] - offsets[0] + 1 == len(offsets):  # no holes, as nearly always
        return _encode_run(offsets[0], [types[offset] for offset in offsets])
    batches: list[AcknowledgementBatch] = []
    at = 0
    count = len(offsets)
    while at < count:
        end = at + 1
        while end < count and offsets[end] == offsets[end - 1] + 1:
            end += 1
        batches.extend(_encode_run(offsets[at], [types[offset] for offset in offsets[at:end]]))
        at = end
    return batches


def encode_unseen(offsets: Iterable[int]) -> list[AcknowledgementBatch]:
    """Return ranges that release records which nobody saw: not counted (spec HBK-20)."""
    batches = encode(dict.fromkeys(offsets, AcknowledgeType.RELEASE))
    for batch in batches:
        batch.uncounted = True
    return batches


def _encode_run(first: int, types: list[AcknowledgeType]) -> list[AcknowledgementBatch]:
    """Encode consecutive offsets from ``first`` on, one type each."""
    if types.count(types[0]) == len(types):
        return [_batch(first, [types[0]], len(types))]
    batches: list[AcknowledgementBatch] = []
    mixed_from = at = 0
    count = len(types)
    while at < count:
        end = at + 1
        while end < count and types[end] == types[at]:
            end += 1
        if end - at > LONG_RUN_LENGTH:
            if mixed_from < at:
                batches.append(_mixed(first + mixed_from, types[mixed_from:at]))
            batches.append(_batch(first + at, [types[at]], end - at))
            mixed_from = end
        at = end
    if mixed_from < count:
        batches.append(_mixed(first + mixed_from, types[mixed_from:]))
    return batches


def _mixed(first: int, types: list[AcknowledgeType]) -> AcknowledgementBatch:
    if types.count(types[0]) == len(types):
        return _batch(first, [types[0]], len(types))
    return _batch(first, types, len(types))


def _batch(first: int, types: list[AcknowledgeType], length: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(
        first_offset=first, last_offset=first + length - 1, acknowledge_types=types
    )
