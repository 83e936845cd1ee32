"""Incremental fetch sessions as a broker keeps them (KIP-227)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sharemesh.ports.brokers import BrokerPartition, WatchAnswer

SESSIONS_MAX = 1_000
NO_SESSION = 0
FULL_EPOCH = 0


class SessionEntry(NamedTuple):
    """What a client asks of one partition in each round."""

    partition: BrokerPartition
    known_epoch: int
    offset: int
    max_bytes: int
    last_fetched_epoch: int


class SessionRequest(NamedTuple):
    """One round: the changes since the last one; under ``FULL_EPOCH`` everything."""

    session_id: int
    session_epoch: int
    changed: Sequence[SessionEntry]
    forgotten: Sequence[BrokerPartition]
    max_wait_ms: int
    max_bytes: int


class SessionAnswer(NamedTuple):
    """What is new; ``session_id`` 0: the broker keeps no session. ``error``: of the session."""

    session_id: int
    answers: Sequence[WatchAnswer]
    error: int = 0


@dataclass(slots=True)
class FetchSession:
    """One session; what was told last is not told again."""

    session_id: int
    epoch: int = 1
    entries: dict[BrokerPartition, SessionEntry] = field(default_factory=dict)
    told: dict[BrokerPartition, tuple[int, int]] = field(default_factory=dict)

    def change(self, request: SessionRequest) -> None:
        """Take over what the client changed."""
        for partition in request.forgotten:
            self.entries.pop(partition, None)
            self.told.pop(partition, None)
        for entry in request.changed:
            self.entries[entry.partition] = entry

    def answered(self, partition: BrokerPartition) -> None:
        """Put a partition behind the others: those that got nothing come first the next time."""
        self.entries[partition] = self.entries.pop(partition)


class FetchSessions:
    """The sessions of one broker; it has room for so many."""

    def __init__(self) -> None:
        self.room = SESSIONS_MAX
        self._sessions: dict[int, FetchSession] = {}
        self._last_id = 0

    def open(self) -> FetchSession:
        """Return a new session; without room one that is not kept, with id 0."""
        if len(self._sessions) >= self.room:
            return FetchSession(NO_SESSION)
        self._last_id += 1
        session = self._sessions[self._last_id] = FetchSession(self._last_id)
        return session

    def get(self, session_id: int) -> FetchSession | None:
        """Return a session that is still kept."""
        return self._sessions.get(session_id)

    def end(self, session_id: int) -> None:
        """Forget one session."""
        self._sessions.pop(session_id, None)

    def clear(self) -> None:
        """Forget all sessions: their clients begin anew."""
        self._sessions.clear()
