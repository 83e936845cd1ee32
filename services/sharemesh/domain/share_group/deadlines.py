"""Session time-outs of all members of a shard in one structure (spec GC-21)."""

import heapq

from sharemesh.domain.ids import GroupId, MemberId

_Key = tuple[GroupId, MemberId]


class SessionDeadlines:
    """A heap of moments, kept lazily: a heartbeat costs one write to a table.

    A member has at most one entry that counts; the heap may hold older ones, which are dropped or
    moved when they come up.
    """

    def __init__(self) -> None:
        self._deadlines: dict[_Key, int] = {}
        self._heap: list[tuple[int, GroupId, MemberId]] = []
        self._first_entry: dict[_Key, int] = {}

    def __len__(self) -> int:
        return len(self._deadlines)

    def deadline_ms(self, group_id: GroupId, member_id: MemberId) -> int | None:
        """Return when the member is due, or None if it is not watched."""
        return self._deadlines.get((group_id, member_id))

    def restart(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> None:
        """Set the moment (monotonic) at which the member is due, earlier or later than before."""
        key = (group_id, member_id)
        self._deadlines[key] = deadline_ms
        queued = self._first_entry.get(key)
        if queued is None or deadline_ms < queued:
            self._push(key, deadline_ms)

    def shorten(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> None:
        """Bring a watched member's moment forward; never backward."""
        current = self._deadlines.get((group_id, member_id))
        if current is not None and deadline_ms < current:
            self.restart(group_id, member_id, deadline_ms)

    def forget(self, group_id: GroupId, member_id: MemberId) -> None:
        """Stop watching a member. Repeating it is fine."""
        self._deadlines.pop((group_id, member_id), None)

    def next_ms(self) -> int | None:
        """Return the moment of the next check, perhaps too early, never too late."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> list[tuple[GroupId, MemberId]]:
        """Return, and stop watching, the members whose moment has come (``<= now_ms``)."""
        due: list[tuple[GroupId, MemberId]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            moment, group_id, member_id = heapq.heappop(self._heap)
            key = (group_id, member_id)
            if self._first_entry.get(key) == moment:
                del self._first_entry[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline <= now_ms:
                del self._deadlines[key]
                due.append(key)
            elif key not in self._first_entry:
                self._push(key, deadline)
        return due

    def _push(self, key: _Key, deadline_ms: int) -> None:
        self._first_entry[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, key[0], key[1]))
