"""Acknowledgements that go to a leader together: one round names each partition once."""

from collections.abc import Iterable, Sequence

from sharemesh.client.consumer.deliveries import (
    PartitionAcknowledgements,
    UniformTypes,
    encode_types,
    encode_unseen,
    span_of,
)
from sharemesh.v1.share_leader_pb2 import AcknowledgementBatch

AcknowledgementRound = dict[tuple[bytes, int], list[PartitionAcknowledgements]]
"""By topic id and partition number, what is sent as one and answered as one."""


def rounds_of(acknowledgements: Iterable[PartitionAcknowledgements]) -> list[AcknowledgementRound]:
    """Return as few rounds as possible; those of one partition stay in their order."""
    rounds: list[AcknowledgementRound] = []
    latest: dict[tuple[bytes, int], int] = {}
    for each in acknowledgements:
        key = (each.source.topic_id, each.source.partition)
        number = latest.get(key, -1)
        if number >= 0 and _follows(rounds[number][key][-1], each):
            rounds[number][key].append(each)
            continue
        latest[key] = number + 1
        if number + 1 == len(rounds):
            rounds.append({})
        rounds[number + 1][key] = [each]
    return rounds


def _follows(before: PartitionAcknowledgements, each: PartitionAcknowledgements) -> bool:
    """Whether both can be one: of one leader epoch and commit, ascending, none given back."""
    return (
        before.leader_epoch == each.leader_epoch
        and before.ticket == each.ticket
        and before.uncounted is None
        and each.uncounted is None
        and span_of(before.types)[1] < span_of(each.types)[0]
    )


def encode_together(together: Sequence[PartitionAcknowledgements]) -> list[AcknowledgementBatch]:
    """Return the ranges of what one round says of a partition."""
    first = together[0]
    if first.uncounted is not None:
        return encode_unseen(first.uncounted)
    if len(together) == 1:
        return encode_types(first.types, first.terms)
    all_alike = _one_type(together)
    if all_alike is not None:
        return encode_types(all_alike)
    terms = {offset: own for each in together for offset, own in (each.terms or {}).items()}
    types = {offset: kind for each in together for offset, kind in each.types.items()}
    return encode_types(types, terms)


def _one_type(together: Sequence[PartitionAcknowledgements]) -> UniformTypes | None:
    """Return what all of them say, if that is one type without terms."""
    kinds = set()
    runs: list[range] = []
    for each in together:
        if not isinstance(each.types, UniformTypes) or each.terms:
            return None
        kinds.add(each.types.kind)
        runs.extend(each.types.runs)
    return UniformTypes(kinds.pop(), runs) if len(kinds) == 1 else None
