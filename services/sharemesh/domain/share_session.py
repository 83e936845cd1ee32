"""Share sessions: who fetches which partitions at one leader, in which order (spec SES)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sharemesh.domain.errors import BoundReachedError, ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, MemberId, TopicPartition

INITIAL_EPOCH = 0
"""A fetch with it opens a new session (spec SES-2)."""

FINAL_EPOCH = -1
"""A request with it closes the session (spec SES-4, SES-9)."""

MAX_EPOCH = 2_147_483_647
"""After it comes 1 again (spec SES-6)."""

Item = TypeVar("Item")
Name = TypeVar("Name")


def next_epoch(epoch: int) -> int:
    """Return the share session epoch that follows (spec SES-6)."""
    if epoch == FINAL_EPOCH:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


def rotated(items: Sequence[Item], epoch: int) -> list[Item]:
    """Return the items rotated left by ``epoch mod n``, for fairness (spec ROT-1)."""
    if len(items) <= 1 or epoch < 1:
        return list(items)
    shift = epoch % len(items)
    return [*items[shift:], *items[:shift]]


@dataclass(frozen=True, slots=True, order=True)
class SessionKey:
    """Whose session (spec SES-1)."""

    group_id: GroupId
    member_id: MemberId


@dataclass(slots=True)
class ShareSession:
    """The partitions of one member at one leader, in order, and the epoch that comes next.

    ``partitions`` says for each whether the next response must hold an entry for it even if
    nothing happened (spec SES-8: newly added, or it had an error last time). ``failed`` are those
    that had an error in the last response: the member knows. ``is_stalled``: it let a lock end
    without a request since it got it, and gets nothing until its next request (HBK-11).
    ``heard_ms`` and ``granted_ms``: when it spoke last, and when records were last sent to it.
    ``principal`` opened it; for all others it does not exist (BND-26). ``follows_hand_over``: it
    goes on with its records at the next leader (HND-4).
    """

    key: SessionKey
    principal: str
    expected_epoch: int = 1
    partitions: dict[TopicPartition, bool] = field(default_factory=dict)
    failed: frozenset[TopicPartition] = frozenset()
    is_stalled: bool = False
    heard_ms: int = 0
    granted_ms: int = -1
    follows_hand_over: bool = False

    def granted(self, now_ms: int) -> None:
        """Note that records are sent to the member: what it says from now on, it says since."""
        self.granted_ms = now_ms

    def heard(self, now_ms: int) -> bool:
        """Note that the member has spoken; return whether a spell ends with it (HBK-12)."""
        # Within the millisecond of a grant it has spoken after it.
        self.heard_ms = max(now_ms, self.granted_ms + 1)
        was_stalled, self.is_stalled = self.is_stalled, False
        return was_stalled

    def lapsed(self, since_ms: int) -> bool:
        """Note that a lock ended that it had since then; return whether a spell begins (HBK-10)."""
        begins = since_ms >= self.heard_ms and not self.is_stalled
        self.is_stalled |= begins
        return begins

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions that the member wants; known ones stay where they are."""
        for partition in partitions:
            self.partitions.setdefault(partition, True)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching partitions; what is acquired there stays so (spec SES-11)."""
        for partition in partitions:
            self.partitions.pop(partition, None)

    def answered(
        self,
        *,
        with_records: Sequence[TopicPartition],
        with_error: Iterable[TopicPartition],
    ) -> None:
        """Note what a response holds: records move a partition to the end (spec SES-8).

        The response that opens a session moves nothing: ``with_records`` is empty then.
        """
        self.failed = failed = frozenset(with_error)
        for partition in self.partitions:
            self.partitions[partition] = partition in failed
        for partition in with_records:
            if partition in self.partitions:
                self.partitions[partition] = self.partitions.pop(partition)


@dataclass(frozen=True, slots=True)
class FetchContext:
    """What a share fetch may do in its session (spec SES-2, SES-4, SES-5)."""

    session: ShareSession
    epoch: int
    replaced: ShareSession | None = None  # discarded without release

    @property
    def is_final(self) -> bool:
        """Whether the session ends with this request and nothing is fetched."""
        return self.epoch == FINAL_EPOCH

    @property
    def is_initial(self) -> bool:
        """Whether every requested partition appears in the response (spec SES-8)."""
        return self.epoch == INITIAL_EPOCH

    def to_fetch(self) -> list[TopicPartition]:
        """Return the whole session set, rotated for this request (spec SES-7, ROT-3)."""
        if self.is_final:
            return []
        return rotated(list(self.session.partitions), self.epoch)

    def must_appear(self) -> list[TopicPartition]:
        """Return the partitions that appear in the response whatever happens (spec SES-8)."""
        partitions = self.session.partitions
        return [p for p, needs_update in partitions.items() if needs_update or self.is_initial]


LEFT_MAX = 10_000
"""Ended sessions whose records are kept for their principals; a lock ends by itself, too."""


class ShareSessions:
    """All share sessions of one leader, bounded (SES-3, BND-16); no eviction of other sessions."""

    def __init__(
        self,
        max_sessions: int,
        *,
        max_of_principal: int | None = None,
        max_in_group: int | None = None,
        quota: Callable[[str, int], str] = lambda *_: "",
        holds: Callable[[SessionKey], bool] = lambda _: False,
    ) -> None:
        """Without further bounds one principal may have all, also in one group.

        ``quota`` says why a principal that has so many may have no more (QUO-12); empty: it may.
        ``holds`` says whether a member without a session holds records (BND-26).
        """
        self._quota = quota
        self._holds = holds
        self._left: dict[SessionKey, str] = {}  # principals of ended sessions, oldest first
        self._max_sessions = max_sessions
        self._max_of_principal = max_sessions if max_of_principal is None else max_of_principal
        self._max_in_group = max_sessions if max_in_group is None else max_in_group
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_group: dict[GroupId, int] = {}
        self._of_principal: dict[str, int] = {}
        self._in_group: dict[tuple[GroupId, str], int] = {}  # of one principal

    def __len__(self) -> int:
        return len(self._sessions)

    def all(self) -> tuple[ShareSession, ...]:
        """Return every session, oldest first."""
        return tuple(self._sessions.values())

    def get(self, key: SessionKey) -> ShareSession | None:
        """Return the session of a member, if it has one."""
        return self._sessions.get(key)

    def group_size(self, group_id: GroupId) -> int:
        """Return how many sessions of a group this leader holds (spec PER-11)."""
        return self._of_group.get(group_id, 0)

    def open(self, key: SessionKey, principal: str) -> tuple[ShareSession, ShareSession | None]:
        """Create a session; one of the same member is discarded without release (spec SES-2).

        Returns:
            The new session, and the one it replaced.

        Raises:
            RefusedError: SHARE_SESSION_LIMIT_REACHED (SES-3, BND-16), UNKNOWN_MEMBER_ID (BND-26).
        """
        self.check_owner(key, principal)
        self._left.pop(key, None)
        replaced = self._drop(key)
        if replaced is None:
            self._check_room(key.group_id, principal)
        session = self._sessions[key] = ShareSession(key, principal)
        _one_more(self._of_group, key.group_id)
        _one_more(self._of_principal, principal)
        _one_more(self._in_group, (key.group_id, principal))
        return session, replaced

    def _check_room(self, group_id: GroupId, principal: str) -> None:
        """Refuse one session more than a bound; the words say whose bound it is."""
        exceeded = self._quota(principal, self._of_principal.get(principal, 0))
        if exceeded:
            raise BoundReachedError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, exceeded)
        for whose, count, bound, remedy in (
            (
                "this leader",
                len(self._sessions),
                self._max_sessions,
                "retry later, or raise group.share.max.share.sessions",
            ),
            (
                f"at this leader {principal!r} in group {group_id!r}",
                self._in_group.get((group_id, principal), 0),
                self._max_in_group,
                "sessions of members that are gone end after group.share.record.lock.duration.ms; "
                "retry later",
            ),
            (
                f"at this leader {principal!r}",
                self._of_principal.get(principal, 0),
                self._max_of_principal,
                "retry later, or raise group.share.max.share.sessions",
            ),
        ):
            if count >= bound:
                raise BoundReachedError(
                    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                    f"{whose} holds {count} of at most {bound} share sessions; {remedy}",
                )

    def for_fetch(
        self,
        key: SessionKey,
        principal: str,
        epoch: int,
        *,
        listed: Sequence[TopicPartition],
        forgotten: Sequence[TopicPartition],
        has_acknowledgements: bool,
    ) -> FetchContext:
        """Find or open the session of a share fetch and advance its epoch (spec SES-2..7).

        Raises:
            RefusedError: INVALID_REQUEST, SHARE_SESSION_LIMIT_REACHED, SHARE_SESSION_NOT_FOUND,
                INVALID_SHARE_SESSION_EPOCH or UNKNOWN_MEMBER_ID; then nothing has changed.
        """
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise RefusedError(
                    ErrorCode.INVALID_REQUEST,
                    "a fetch with share session epoch 0 opens a session and cannot carry "
                    "acknowledgements; send them with the epoch that follows",
                )
            session, replaced = self.open(key, principal)
            session.add(listed)
            return FetchContext(session, epoch, replaced)
        session = self._existing(key, principal)
        if epoch == FINAL_EPOCH:
            return FetchContext(session, epoch)
        self._advance(session, epoch)
        session.add(listed)
        session.forget(forgotten)
        return FetchContext(session, epoch)

    def for_acknowledge(self, key: SessionKey, principal: str, epoch: int) -> ShareSession:
        """Find the session of an acknowledgement and advance its epoch (spec SES-9).

        Raises:
            RefusedError: INVALID_SHARE_SESSION_EPOCH or SHARE_SESSION_NOT_FOUND.
        """
        if epoch == INITIAL_EPOCH:
            raise RefusedError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                "an acknowledgement cannot open a share session (epoch 0); fetch first",
            )
        session = self._existing(key, principal)
        if epoch != FINAL_EPOCH:
            self._advance(session, epoch)
        return session

    def remove(self, session: ShareSession) -> bool:
        """Forget a session; False if it was replaced or closed before (spec SES-12)."""
        if self._sessions.get(session.key) is not session:
            return False
        self._drop(session.key)
        return True

    def leaves_records(self, session: ShareSession) -> None:
        """Note whose records a session leaves that are not released at its end (BND-26)."""
        if session.key not in self._sessions:
            self._left[session.key] = session.principal
            if len(self._left) > LEFT_MAX:
                del self._left[next(iter(self._left))]

    def check_owner(self, key: SessionKey, principal: str) -> None:
        """Refuse a member whose session here, or what one left, is another principal's (BND-26).

        Raises:
            RefusedError: UNKNOWN_MEMBER_ID; nothing has changed.
        """
        session = self._sessions.get(key)
        owner = self._left.get(key, principal) if session is None else session.principal
        if owner != principal and session is None and not self._holds(key):
            del self._left[key]
            owner = principal
        if owner != principal:
            raise BoundReachedError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"member {key.member_id!r} is not in group {key.group_id!r} for this principal; "
                "join under a member id of your own",
            )

    def _existing(self, key: SessionKey, principal: str) -> ShareSession:
        session = self._sessions.get(key)
        if session is None or session.principal != principal:
            raise RefusedError(
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                f"member {key.member_id!r} of group {key.group_id!r} has no share session at "
                "this leader; open one by a fetch with epoch 0",
            )
        return session

    @staticmethod
    def _advance(session: ShareSession, epoch: int) -> None:
        if epoch != session.expected_epoch:
            raise RefusedError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"share session epoch {epoch} was sent where {session.expected_epoch} is "
                "expected; open a new session by a fetch with epoch 0",
            )
        session.expected_epoch = next_epoch(epoch)

    def _drop(self, key: SessionKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            _one_less(self._of_group, key.group_id)
            _one_less(self._of_principal, session.principal)
            _one_less(self._in_group, (key.group_id, session.principal))
        return session


def _one_more(counts: dict[Name, int], name: Name) -> None:
    counts[name] = counts.get(name, 0) + 1


def _one_less(counts: dict[Name, int], name: Name) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
