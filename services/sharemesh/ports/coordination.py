"""Sessions, elections, claims, watches and guarded transactions; etcd and one process fill it."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

OPERATIONS_MAX = 100  # of one commit: etcd allows 128
GUARDS_MAX = 120  # of one commit: etcd allows 128


class SessionLostError(Exception):
    """The lease of this process is gone, or can no longer be trusted."""


class CoordinationError(Exception):
    """The store cannot be reached or refused; the message says what to do."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key as stored. Revisions grow over the whole store."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease_id: int = 0


@dataclass(frozen=True, slots=True)
class Put:
    """Write a key; ``leased`` binds it to the session, ``lease_id`` to another process's lease."""

    key: str
    value: bytes
    leased: bool = False
    lease_id: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a key, or all keys with this prefix."""

    key: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition of a transaction; exactly one of the revisions is given, 0 means absent."""

    key: str
    create_revision: int | None = None
    mod_revision: int | None = None


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change; ``current`` is None after a deletion."""

    key: str
    current: KeyValue | None
    revision: int


@dataclass(frozen=True, slots=True)
class RangeSnapshot:
    """All keys of a prefix at one revision; a watch begins with one, and again after a gap."""

    entries: tuple[KeyValue, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class ElectedLeadership:
    """Won: ``token`` (create revision) guards every write under it."""

    key: str
    token: int

    @property
    def guard(self) -> Guard:
        """The condition for writes under this leadership."""
        return Guard(self.key, create_revision=self.token)


class Session(Protocol):
    """One lease, kept alive; believed valid only until its margin ends (monotonic time)."""

    @property
    def lease_id(self) -> int:
        """The id that a parent may revoke."""
        ...

    @property
    def valid(self) -> bool:
        """Whether work under this lease may continue now."""
        ...

    @property
    def trusted_ms(self) -> int:
        """For how long work may continue if no keep-alive is confirmed any more; 0: no longer."""
        ...

    async def lost(self) -> None:
        """Return when the lease is lost or can no longer be trusted."""
        ...

    async def close(self) -> None:
        """Stop and revoke."""
        ...


class Coordination(Protocol):
    """A small, hot, watched key-value store."""

    async def open_session(self, *, ttl_ms: int) -> Session:
        """Grant a lease and keep it alive every ttl/3; margin 20 % (at least 1 s)."""
        ...

    async def get(self, key: str) -> KeyValue | None:
        """Return one key, linearizable."""
        ...

    async def list(self, prefix: str) -> RangeSnapshot:
        """Return all keys with this prefix, linearizable."""
        ...

    async def commit(
        self,
        guards: Sequence[Guard],
        operations: Sequence[Put | Delete],
        *,
        session: Session | None = None,
    ) -> int | None:
        """Apply all operations if all guards hold; return the revision, or None if they do not.

        At most ``OPERATIONS_MAX`` operations and ``GUARDS_MAX`` guards. An unknown outcome is
        read back, never assumed; still, what was reported as an error may take effect later,
        so callers keep to guards and watch what they own.

        Raises:
            ValueError: Too many operations or guards.
            SessionLostError: A leased put without a valid session.
            CoordinationError: The store cannot be reached, or a put names a lease that is gone
                (and nothing was applied).
        """
        ...

    def watch(self, prefix: str) -> AsyncGenerator[RangeSnapshot | WatchEvent, None]:
        """Yield a snapshot, then each change in order; a new snapshot after lost history.

        It never ends by itself: while the store is away it waits and resumes. Close it
        (``contextlib.aclosing``) to release what it holds.
        """
        ...

    async def campaign(self, election: str, value: bytes, session: Session) -> ElectedLeadership:
        """Return once elected under ``session``; cancelling withdraws.

        Raises:
            SessionLostError: The lease ended while waiting.
        """
        ...

    async def resign(self, leadership: ElectedLeadership) -> None:
        """Give a leadership up; the next candidate wins at once."""
        ...

    async def revoke(self, lease_id: int) -> None:
        """Revoke another process's lease (a parent does so when its child dies)."""
        ...

    async def close(self) -> None:
        """Close connections; sessions end."""
        ...
