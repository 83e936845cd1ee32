"""Share sessions and what their end means: streams, idle time, release, the last of a group."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.errors import BoundReachedError, ErrorCode, invalid_request
from sharemesh.domain.ids import GroupId, TopicPartition
from sharemesh.domain.share_partition.events import AcknowledgementBatch
from sharemesh.domain.share_session import LEFT_MAX, SessionKey, ShareSession, ShareSessions
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.failures import Outcome
from sharemesh.share_leader.partition.led_partitions import LedPartitions
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner
from sharemesh.throttling.counted_quota import CountedQuota

_log = logging.getLogger(__name__)

Offsets = tuple[int, int]  # first and last
_Whose = tuple[SessionKey, str]  # and the principal
_RELEASE = (AcknowledgeType.RELEASE,)
_FEW_PARTITIONS = 100


class _Attendance:
    """What keeps one session alive besides requests: its stream, and requests under way."""

    __slots__ = ("busy", "stream", "used_ms")

    def __init__(self, now_ms: int) -> None:
        self.used_ms = now_ms
        self.busy = 0
        self.stream: object | None = None


class ShareSessionCache:
    """All sessions of a leader, each bound to a stream or to the next request."""

    def __init__(
        self, environment: LeaderEnvironment, partitions: LedPartitions, quota: CountedQuota
    ) -> None:
        settings = environment.settings
        self.sessions = ShareSessions(
            settings.max_share_sessions,
            max_of_principal=settings.max_principal_sessions,
            max_in_group=settings.max_group_sessions,
            quota=quota.exceeded,
            holds=self._holds_records,
        )
        self._environment = environment
        self._partitions = partitions
        self._attendance: dict[SessionKey, tuple[ShareSession, _Attendance]] = {}
        self._holds: dict[tuple[SessionKey, str], object] = {}  # of each principal (BND-26)
        self._on_replaced: dict[object, Callable[[], None]] = {}
        self._left_early: dict[SharePartitionRunner, dict[_Whose, ShareSession]] = {}

    # ---- opening and keeping --------------------------------------------------------------------

    def began(
        self,
        session: ShareSession,
        *,
        stream: object | None = None,
        on_replaced: Callable[[], None] | None = None,
    ) -> None:
        """Keep a session that was just opened; the stream of the one it replaced is told.

        With ``stream`` the session lives as long as that stream.
        """
        before = self._attendance.get(session.key)
        attendance = _Attendance(self._environment.clock.now_ms())
        attendance.stream = stream or self._holds.get((session.key, session.principal))
        self._attendance[session.key] = (session, attendance)
        if stream is not None and on_replaced is not None:
            self._on_replaced[stream] = on_replaced
        if before is not None and before[1].stream is not None:
            tell = self._on_replaced.pop(before[1].stream, None)
            if tell is not None:
                tell()
        self._watch_idle(session, attendance)

    def request_begins(self, session: ShareSession) -> None:
        """A request uses the session; it is not idle until ``request_ends``."""
        entry = self._attendance.get(session.key)
        if entry is not None and entry[0] is session:
            entry[1].busy += 1

    def request_ends(self, session: ShareSession) -> None:
        """The request was answered; from now on the session is idle."""
        entry = self._attendance.get(session.key)
        if entry is not None and entry[0] is session:
            entry[1].busy -= 1
            entry[1].used_ms = self._environment.clock.now_ms()

    def hold(self, key: SessionKey, principal: str, stream: object) -> None:
        """Bind the member's session, now or as soon as it opens one, to a HoldSession stream.

        It binds none that another principal opens (BND-26).
        """
        self._holds[key, principal] = stream
        entry = self._attendance.get(key)
        if entry is None or entry[0].principal != principal:
            return
        if entry[1].stream not in self._on_replaced:
            entry[1].stream = stream

    def session_of(self, key: SessionKey) -> ShareSession | None:
        """Return the member's session."""
        return self.sessions.get(key)

    def check_room(self, session: ShareSession | None, added: Sequence[TopicPartition]) -> None:
        """Refuse partitions beyond the bound of one session, or of all sessions together.

        Raises:
            RefusedError: INVALID_REQUEST or SHARE_SESSION_LIMIT_REACHED; nothing has changed.
        """
        settings = self._environment.settings
        have = session.partitions if session is not None else {}
        new = sum(partition not in have for partition in added)
        if len(have) + new > settings.max_partitions_per_request:
            raise invalid_request(
                f"{len(have) + new} partitions are named; at most "
                f"{settings.max_partitions_per_request} are served at a time"
            )
        if len(have) + new <= _FEW_PARTITIONS:
            return  # the bound on sessions bounds these
        total = sum(len(each.partitions) for each in self.sessions.all())
        if total + new > settings.max_session_partitions:
            raise BoundReachedError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"the share sessions of this leader hold {total} partitions, at most "
                f"{settings.max_session_partitions} in all; fetch from fewer",
            )

    # ---- ending ---------------------------------------------------------------------------------

    async def close(self, session: ShareSession) -> dict[TopicPartition, Outcome]:
        """End a session in good order and release what the member holds (REQ-10, SES-16)."""
        if not self._remove(session):
            return {}
        outcomes = await self.release(session)
        self._group_may_be_empty(session.key.group_id)
        return outcomes

    def close_soon(self, session: ShareSession) -> None:
        """End a session now, release in the background (spec REQ-10)."""
        if self._remove(session):
            self._environment.tasks.spawn(self._release_closed(session))

    async def _release_closed(self, session: ShareSession) -> None:
        await self.release(session)
        self._group_may_be_empty(session.key.group_id)

    def stream_lost_soon(self, key: SessionKey, principal: str, stream: object) -> None:
        """Like ``stream_lost``, for a handler that is being cancelled."""
        self._environment.tasks.spawn(self.stream_lost(key, principal, stream))

    async def stream_lost(self, key: SessionKey, principal: str, stream: object) -> None:
        """The stream of a session is gone: its connection loss (spec SES-12)."""
        self._on_replaced.pop(stream, None)
        if self._holds.get((key, principal)) is stream:
            del self._holds[key, principal]
        entry = self._attendance.get(key)
        if entry is not None and entry[1].stream is stream and self._remove(entry[0]):
            self._environment.counters.sessions_evicted += 1
            await self.release(entry[0])
        self._group_may_be_empty(key.group_id)

    async def release(self, session: ShareSession) -> dict[TopicPartition, Outcome]:
        """Release what the member holds, also in forgotten partitions (spec REL-1, SES-16).

        Partitions that are being handed over keep their locks: nothing is decided there any more
        (HND-4).
        """
        never: Outcome = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nothing was ever fetched there")
        runners = self._partitions.shares_of(session.key.group_id)
        return dict.fromkeys(session.partitions, never) | await self._release_held(session, runners)

    async def _release_held(
        self, session: ShareSession, candidates: Iterable[SharePartitionRunner]
    ) -> dict[TopicPartition, Outcome]:
        outcomes: dict[TopicPartition, Outcome] = {}
        runners: list[SharePartitionRunner] = []
        for runner in candidates:
            partition = runner.key.topic_partition
            led = self._partitions.get(partition)
            if led is None or led.is_handing_over:
                self.sessions.leaves_records(session)
                outcomes[partition] = (ErrorCode.NONE, "")
            else:
                runners.append(runner)
                if runner.phase is Phase.INITIALIZING:
                    self._left_before_it_began(session, runner)
        answers = await asyncio.gather(
            *(runner.release(session.key.member_id, session.principal) for runner in runners)
        )
        for runner, answer in zip(runners, answers, strict=True):
            outcomes[runner.key.topic_partition] = (answer.error, answer.message)
            if answer.error:
                self.sessions.leaves_records(session)
                _log.warning(
                    "records of member %s in %s could not be released (%s); their locks expire",
                    session.key.member_id,
                    runner.key,
                    answer.message,
                )
        return outcomes

    def _left_before_it_began(self, session: ShareSession, runner: SharePartitionRunner) -> None:
        """Remember who has left: the state, once it is read, may bring locks of it (HND-11)."""
        left = self._left_early.get(runner)
        if left is None:
            left = self._left_early[runner] = {}
            self._environment.tasks.spawn(self._release_once_begun(runner, left))
        if len(left) < LEFT_MAX:
            left[session.key, session.principal] = session

    async def _release_once_begun(
        self, runner: SharePartitionRunner, left: Mapping[_Whose, ShareSession]
    ) -> None:
        """Release what is left by those that have not come back meanwhile."""
        try:
            await runner.until_begun()
        finally:
            del self._left_early[runner]
        gone = [each for (key, _), each in left.items() if self.sessions.get(key) is None]
        if runner.phase is Phase.ACTIVE:
            await asyncio.gather(*(self._release_held(each, [runner]) for each in gone))

    def _holds_records(self, key: SessionKey) -> bool:
        """Return whether a member holds records of some share partition here."""
        return any(
            True
            for runner in self._partitions.shares_of(key.group_id)
            for _ in runner.machine.holders(lambda member_id: member_id == key.member_id)
        )

    def give_up(
        self,
        session: ShareSession,
        withheld: Mapping[TopicPartition, Sequence[Offsets]],
        lost: Collection[TopicPartition] = (),
    ) -> None:
        """Give back what was acquired and not handed out, uncounted (HBK-1), now.

        In ``lost`` partitions the rest that the member holds is released too (AUT-6).
        """
        runners = [
            runner
            for runner in self._partitions.shares_of(session.key.group_id)
            if runner.key.topic_partition in withheld or runner.key.topic_partition in lost
        ]
        for runner in runners:
            # One by one: a request is all or nothing, and the locks of some may have ended.
            for first, last in withheld.get(runner.key.topic_partition, ()):
                unseen = AcknowledgementBatch(first, last, _RELEASE, uncounted=True)
                runner.acknowledge(session.key.member_id, (unseen,))
        held = [runner for runner in runners if runner.key.topic_partition in lost]
        self._environment.tasks.spawn(self._release_held(session, held))

    def clear(self) -> None:
        """Forget all sessions without release: the feature was switched off (SES-14)."""
        for session in self.sessions.all():
            self._remove(session)
        for led in self._partitions:
            for runner in list(led.shares.values()):
                runner.fence(ErrorCode.UNSUPPORTED_VERSION, "share groups are switched off")

    def _remove(self, session: ShareSession) -> bool:
        if not self.sessions.remove(session):
            return False
        self._attendance.pop(session.key, None)
        return True

    def _group_may_be_empty(self, group_id: GroupId) -> None:
        """Drop a group's share partitions once it has no session (spec PER-11).

        While a lock runs (a release that failed) the machine stays: a second grant in the
        same leader epoch would break the promise of one holder. So it does while the state of
        locks that ended is not written: the next machine would read the state from before, and
        count the same deliveries again. It is checked again later.
        """
        if self.sessions.group_size(group_id):
            return
        again = False
        for runner in self._partitions.shares_of(group_id):
            if runner.is_settled:
                runner.fence(
                    ErrorCode.SHARE_SESSION_NOT_FOUND, "the group's last share session has ended"
                )
            else:
                again = True
        if again:
            settings, clock = self._environment.settings, self._environment.clock
            self._environment.alarms.at(
                clock.now_ms() + settings.empty_group_retry_ms,
                lambda: self._group_may_be_empty(group_id),
            )

    # ---- idle sessions --------------------------------------------------------------------------

    def _watch_idle(self, session: ShareSession, attendance: _Attendance) -> None:
        limit_ms = self._environment.view.group_config(session.key.group_id).record_lock_duration_ms
        self._environment.alarms.at(
            attendance.used_ms + limit_ms, lambda: self._idle_check(session, attendance, limit_ms)
        )

    def _idle_check(self, session: ShareSession, attendance: _Attendance, limit_ms: int) -> None:
        entry = self._attendance.get(session.key)
        if entry is None or entry[0] is not session:
            return
        now_ms = self._environment.clock.now_ms()
        if attendance.stream is not None or attendance.busy:
            attendance.used_ms = now_ms
        if now_ms - attendance.used_ms >= limit_ms:
            self._environment.tasks.spawn(self._idle(session))
        else:
            self._watch_idle(session, attendance)

    async def _idle(self, session: ShareSession) -> None:
        self._environment.counters.sessions_evicted += 1
        await self.close(session)
