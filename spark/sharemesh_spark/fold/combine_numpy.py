"""Combining state batches of many share partitions at once (spec CMB-1 to CMB-12), in NumPy.

The same as ``domain.state_batch.combine`` for each group; tests prove it on random logs.
"""

from dataclasses import dataclass

import numpy as np

from sharemesh_spark.reader.varints import Columns, Ints

PIECES_PER_BATCH_MAX = 64
"""More pieces than that, for each batch of a group, are left to the domain's own sweep."""

_PIECES_FREE = 4_096
_STATE_BITS = 3  # delivery states are 0 to 4


@dataclass(frozen=True, slots=True)
class Runs(Columns):
    """State batches of groups, in order of (group, first offset); offsets are inclusive."""

    group: Ints
    first: Ints
    last: Ints
    state: Ints
    count: Ints
    not_before: Ints


def combined(runs: Runs, groups: int) -> tuple[Runs, Ints]:
    """Return combined runs, and which groups (0 to ``groups`` - 1) are too tangled to do here.

    Args:
        runs: In any order, clipped at the start offset already.
        groups: How many groups there are.
    """
    order = np.lexsort((runs.first, runs.group))
    runs = runs.selected(order)
    same = runs.group[1:] == runs.group[:-1]
    overlap = same & (runs.first[1:] <= runs.last[:-1])
    tangled = np.zeros(groups, dtype=bool)
    tangled[runs.group[1:][overlap]] = True
    if not tangled.any():
        return _merged(runs), np.zeros(0, dtype=np.int64)
    # Longer overlaps than with the next neighbour are in groups that are marked by it already.
    inside = tangled[runs.group]
    pieces, given_up = _best_pieces(runs.selected(inside), groups)
    plain = runs.selected(~inside)
    everything = Runs.joined([plain, pieces])
    sort = np.argsort(everything.group, kind="stable")  # offsets are in order within a group
    return _merged(everything.selected(sort)), given_up


def _best_pieces(runs: Runs, groups: int) -> tuple[Runs, Ints]:
    """Cut at every boundary; on each piece the highest count, state, not-before wins (CMB-2)."""
    edge_group = np.concatenate([runs.group, runs.group])
    edge = np.concatenate([runs.first, runs.last + 1])
    order = np.lexsort((edge, edge_group))
    edge_group, edge = edge_group[order], edge[order]
    new = np.ones(len(edge), dtype=bool)
    new[1:] = (edge_group[1:] != edge_group[:-1]) | (edge[1:] != edge[:-1])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    edge_group, edge = edge_group[new], edge[new]
    begin, end = place[: len(runs.group)], place[len(runs.group) :]
    lengths = end - begin
    per_group = np.bincount(runs.group, weights=lengths, minlength=groups)
    batches = np.bincount(runs.group, minlength=groups)
    too_many = per_group > PIECES_PER_BATCH_MAX * batches + _PIECES_FREE
    given_up = np.flatnonzero(too_many)
    lengths = np.where(too_many[runs.group], 0, lengths)
    total = int(lengths.sum())
    behind = np.cumsum(lengths)
    piece = np.repeat(begin - behind + lengths, lengths) + np.arange(total)
    rank = ((runs.count + 1) << _STATE_BITS) | runs.state
    best = np.zeros(len(edge), dtype=np.int64)
    rank_of_piece = np.repeat(rank, lengths)
    np.maximum.at(best, piece, rank_of_piece)
    not_before = np.zeros(len(edge), dtype=np.int64)
    if runs.not_before.any():  # of equals the later one (RTY-7)
        later = np.where(rank_of_piece == best[piece], np.repeat(runs.not_before, lengths), 0)
        np.maximum.at(not_before, piece, later)
    covered = np.flatnonzero(best)
    rank = best[covered]
    found = Runs(
        edge_group[covered],
        edge[covered],
        edge[covered + 1] - 1,
        rank & ((1 << _STATE_BITS) - 1),
        (rank >> _STATE_BITS) - 1,
        not_before[covered],
    )
    return found, given_up


def _merged(runs: Runs) -> Runs:
    """Join neighbours that touch and are equal (CMB-3)."""
    if len(runs.group) == 0:
        return runs
    joined = (
        (runs.group[1:] == runs.group[:-1])
        & (runs.first[1:] == runs.last[:-1] + 1)
        & (runs.state[1:] == runs.state[:-1])
        & (runs.count[1:] == runs.count[:-1])
        & (runs.not_before[1:] == runs.not_before[:-1])
    )
    if not joined.any():
        return runs
    begins = np.flatnonzero(np.concatenate([[True], ~joined]))
    ends = np.concatenate([begins[1:], [len(runs.group)]]) - 1
    return Runs(
        runs.group[begins],
        runs.first[begins],
        runs.last[ends],
        runs.state[begins],
        runs.count[begins],
        runs.not_before[begins],
    )
