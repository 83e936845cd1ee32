"""What became of each offset of a share partition, life by life, as ranges (spec REP-5 to REP-10).

All the figures of a report are sums over spans: ranges of offsets with one story each.
"""

from dataclasses import dataclass, fields

import numpy as np

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh_spark.lives import NONE, Changes, Life
from sharemesh_spark.reader.varints import Columns, Ints, Mask

NOT_RECORDED = 0
"""The cause of an end that only a start offset or a newest state shows (REP-6)."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Record batches of a partition in order: inclusive offsets, and when they were appended."""

    first: Ints
    last: Ints
    at_ms: Ints


@dataclass(frozen=True, slots=True)
class JobSpans(Columns):
    """Disjoint ranges of one life in order; -1 is "not known" or "did not happen".

    Attributes:
        first: First offset.
        last: Last offset, inclusive.
        came_ms: When the records came to this life (REP-9); -1 for offsets without a record.
        changed_ms: When their first change was, if it is known to be their first (REP-10).
        ended_ms: When they were finished.
        acquired_ms: When their first delivery began, if that is known.
        worked_ms: How long members had them, over all deliveries that the log tells of (REP-10).
        state: As what: a final delivery state; AVAILABLE if that is not recorded.
        cause: A ``Cause``, or ``NOT_RECORDED``.
        count: Delivery count at the end.
        change: Row of the change that ended them, among those of all lives.
    """

    first: Ints
    last: Ints
    came_ms: Ints
    changed_ms: Ints
    ended_ms: Ints
    acquired_ms: Ints
    worked_ms: Ints
    state: Ints
    cause: Ints
    count: Ints
    change: Ints


def spans_of(life: Life, changes: Changes, appended: Appended) -> JobSpans:
    """Return the spans of one life: what was appended to it or finished in it.

    Args:
        life: One of those that ``lives_of`` made of the changes.
        changes: Of all lives of the share partition.
        appended: What the record log of the partition still has.
    """
    own = np.flatnonzero(changes.first[life.rows] >= 0) + life.rows.start
    in_state = np.array(life.state.finished if life.state else (), dtype=np.int64).reshape(-1, 4)
    first = np.concatenate([changes.first[own], in_state[:, 0]])
    last = np.concatenate([changes.last[own], in_state[:, 1]])
    starts, starts_ms = _starts(life, changes)
    edges = np.unique(
        np.concatenate(
            [first, last + 1, appended.first, appended.last + 1, starts, [life.first_offset, 0]]
        )
    )
    edges = edges[edges >= max(life.first_offset, 0)]
    if len(edges) < 2:  # nothing is known of any offset
        return _NOTHING
    low = edges[:-1]
    ends = _first_covering(edges, first, last, _final(changes, own, len(in_state)))
    begins = _first_covering(edges, changes.first[own], changes.last[own], None)
    found = _Ends(changes, own, in_state, starts, starts_ms)
    ended_ms, state, cause, count, change = found.of(low, ends)
    is_record = (change >= 0) & (cause != int(Cause.GAP))
    changed_ms = _changed_ms(life, changes, own, begins)
    came = _came(life, *_appended(low, appended), ended_ms, is_record)
    spans = JobSpans(
        first=low,
        last=edges[1:] - 1,
        came_ms=came,
        changed_ms=changed_ms,
        ended_ms=ended_ms,
        acquired_ms=_acquired_ms(changes, own, begins, changed_ms),
        worked_ms=_worked_ms(edges, changes, own),
        state=state,
        cause=cause,
        count=count,
        change=change,
    )
    return spans.selected((came >= 0) | (ended_ms >= 0))


class _Ends:
    """How offsets were finished: by a change, by a batch of the newest state, or passed by."""

    def __init__(
        self, changes: Changes, own: Ints, in_state: Ints, starts: Ints, starts_ms: Ints
    ) -> None:
        self._changes, self._own, self._in_state = changes, own, in_state
        self._starts, self._starts_ms = starts, starts_ms

    def of(self, low: Ints, ends: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return time, delivery state, cause, delivery count and row of change of each range.

        ``ends`` is which of own changes, then batches of the state, finished it; -1 for none.
        """
        changes, own = self._changes, self._own
        by_change = (ends >= 0) & (ends < len(own))
        by_state = ends >= len(own)
        change = np.full(len(low), NONE, dtype=np.int64)
        change[by_change] = own[ends[by_change]]
        ended_ms = np.full(len(low), NONE, dtype=np.int64)
        passed = np.searchsorted(self._starts, low, side="right")
        is_passed = passed < len(self._starts)
        ended_ms[is_passed] = self._starts_ms[passed[is_passed]]
        if len(self._starts_ms):
            ended_ms[by_state & ~is_passed] = self._starts_ms[-1]
        ended_ms[by_change] = changes.at_ms[change[by_change]]
        state, count = (np.full(len(low), each, dtype=np.int64) for each in (0, NONE))
        row = self._in_state[ends[by_state] - len(own)]
        state[by_state], count[by_state] = row[:, 2], row[:, 3]
        state[by_change] = changes.state[change[by_change]]
        count[by_change] = changes.count[change[by_change]]
        cause = np.full(len(low), NOT_RECORDED, dtype=np.int64)
        cause[by_change] = changes.cause[change[by_change]]
        return ended_ms, state, cause, count, change


def _starts(life: Life, changes: Changes) -> tuple[Ints, Ints]:
    """Return start offsets as they rose, and when each was known (REP-5)."""
    starts, times = changes.start_offset[life.rows], changes.at_ms[life.rows]
    if life.state is not None:
        last_ms = max([life.state.at_ms, *times[-1:].tolist()])
        starts = np.append(starts, life.state.start_offset)
        times = np.append(times, last_ms)
    known = starts >= 0
    starts, times = np.maximum.accumulate(starts[known]), times[known]
    rises = np.ones(len(starts), dtype=bool)
    rises[1:] = starts[1:] > starts[:-1]
    return starts[rises], times[rises]


def _final(changes: Changes, own: Ints, in_state: int) -> Mask:
    final = np.isin(
        changes.state[own], [int(DeliveryState.ACKNOWLEDGED), int(DeliveryState.ARCHIVED)]
    )
    return np.concatenate([final, np.ones(in_state, dtype=bool)])


def _first_covering(edges: Ints, first: Ints, last: Ints, which: Mask | None) -> Ints:
    """Return the number of the first range that covers each stretch between edges; -1 for none."""
    chosen = np.arange(len(first)) if which is None else np.flatnonzero(which)
    stretch, length = _stretches(edges, first[chosen], last[chosen])
    found = np.full(len(edges), _MANY, dtype=np.int64)
    np.minimum.at(found, stretch, np.repeat(chosen, length))
    return np.where(found[:-1] == _MANY, NONE, found[:-1])


def _stretches(edges: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return the stretches between edges that each range has, and how many these are."""
    begin = np.searchsorted(edges, first)
    length = np.searchsorted(edges, last + 1) - begin
    return np.repeat(begin - np.cumsum(length) + length, length) + np.arange(length.sum()), length


_MANY = 2**62


def _appended(low: Ints, appended: Appended) -> tuple[Mask, Ints]:
    """Return which offsets the record log has, and when they were appended."""
    inside = np.zeros(len(low), dtype=bool)
    at_ms = np.zeros(len(low), dtype=np.int64)
    place = np.searchsorted(appended.first, low, side="right") - 1
    behind = np.flatnonzero(place >= 0)
    place = place[behind]
    covered = low[behind] <= appended.last[place]
    inside[behind[covered]] = True
    at_ms[behind[covered]] = appended.at_ms[place[covered]]
    return inside, at_ms


def _came(life: Life, in_log: Mask, at_ms: Ints, ended_ms: Ints, is_record: Mask) -> Ints:
    """Return when records came (REP-9); -1 for offsets that hold none, or are of no concern."""
    ended = ended_ms >= 0
    came = np.where(in_log, np.maximum(at_ms, max(life.began_ms, 0)), NONE)
    came = np.where(in_log & ended, np.minimum(came, ended_ms), came)
    came = np.where(~in_log & ended & is_record, ended_ms, came)
    if life.ended_ms >= 0:
        came = np.where(~ended & (came >= life.ended_ms), NONE, came)
    return came


def _changed_ms(life: Life, changes: Changes, own: Ints, begins: Ints) -> Ints:
    found = np.full(len(begins), NONE, dtype=np.int64)
    known = begins >= 0
    rows = own[begins[known]]
    timed = np.ones(len(rows), dtype=bool)
    if life.counts_from >= 0:
        timed = changes.count[rows] <= 1
    found[known] = np.where(timed, changes.at_ms[rows], NONE)
    return found


def _acquired_ms(changes: Changes, own: Ints, begins: Ints, changed_ms: Ints) -> Ints:
    """Return when the first delivery began, where the first change is known to be of it."""
    found = np.full(len(begins), NONE, dtype=np.int64)
    known = (begins >= 0) & (changed_ms >= 0)
    found[known] = changes.acquired_ms[own[begins[known]]]
    return found


def _worked_ms(edges: Ints, changes: Changes, own: Ints) -> Ints:
    """Return the sum of all deliveries from acquisition to change; -1 if one does not say when."""
    stretch, length = _stretches(edges, changes.first[own], changes.last[own])
    acquired_ms, at_ms = changes.acquired_ms[own], changes.at_ms[own]
    total, told, silent = (np.zeros(len(edges), dtype=np.int64) for _ in range(3))
    held_ms = np.where(acquired_ms >= 0, np.maximum(at_ms - acquired_ms, 0), 0)
    np.add.at(total, stretch, np.repeat(held_ms, length))
    np.add.at(told, stretch, 1)
    np.add.at(silent, stretch, np.repeat((acquired_ms < 0).astype(np.int64), length))
    found: Ints = np.where((told > 0) & (silent == 0), total, NONE)[:-1]
    return found


_NOTHING = JobSpans(*(np.zeros(0, dtype=np.int64) for _ in fields(JobSpans)))
