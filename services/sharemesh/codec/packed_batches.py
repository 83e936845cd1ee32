"""Columns of many state batches: domain <-> message (WIN-13)."""

from array import array
from itertools import accumulate, chain
from operator import add, sub

from sharemesh.domain.packed_batches import BatchColumns, PackedBatches
from sharemesh.v1.common_pb2 import PackedStateBatches


def encode_packed(batches: PackedBatches) -> PackedStateBatches:
    """Return the message of packed batches: differences, so that most numbers are short."""
    firsts, lasts, kinds, not_befores = batches.columns()
    message = PackedStateBatches()
    message.gaps.extend(map(sub, firsts, chain((0,), lasts)))
    message.lengths.extend(map(sub, lasts, firsts))
    message.kinds.extend(kinds)
    if not_befores:
        base_ms = min(filter(None, not_befores), default=0)
        message.not_before_base_ms = base_ms
        message.not_befores.extend(at_ms and at_ms - base_ms + 1 for at_ms in not_befores)
    return message


def decode_packed(message: PackedStateBatches) -> PackedBatches:
    """Return packed batches.

    Raises:
        ValueError: The columns do not fit together, or the batches are not in order.
    """
    lengths = message.lengths
    count = len(lengths)
    if not count == len(message.gaps) == len(message.kinds):
        raise ValueError("columns of state batches are not equally long")
    if len(message.not_befores) not in (0, count):
        raise ValueError("a column of not-befores does not fit the others")
    try:
        lasts = array("q", accumulate(map(add, message.gaps, lengths)))
        firsts = array("q", map(sub, lasts, lengths))
        kinds = array("q", message.kinds)
        before_ms = message.not_before_base_ms - 1
        not_befores = array("q", [later and later + before_ms for later in message.not_befores])
    except OverflowError as error:
        raise ValueError("a number of a state batch is too large") from error
    return PackedBatches.of(BatchColumns(firsts, lasts, kinds, not_befores))
