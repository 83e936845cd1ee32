"""What leading a coordinator shard and leading a topic-partition have in common.

A leadership is one such life in one process. Something in the store (an election that was won, a
claim) says that this process may lead; it is held under a session. Leading then means: raise the
epoch, have the host start under it, serve, stop. Shards and topic-partitions differ in how they are
won, when they are relinquished, and how they are given back.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

from sharemesh.backoff import Backoff
from sharemesh.cluster.membership import ClusterMember
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import Session
from sharemesh.ports.shard_log import CorruptLogError, FencedError
from sharemesh.tasks import cancel_and_wait, first_done

EPOCH_MAX = 2**31 - 1
FENCE_ATTEMPTS = 20


class HeldUnderSession(Protocol):
    """What the store says that this process holds."""

    @property
    def session(self) -> Session:
        """The session that it is held under: it is lost with it."""
        ...


Held = TypeVar("Held", bound=HeldUnderSession)


class Leadership(ABC, Generic[Held]):
    """Leads at most once at a time; ``stopped`` is set whenever nothing is served."""

    def __init__(self, clock: Clock, backoff: Backoff, unanswered_max_ms: int) -> None:
        """``backoff`` is reset with each start that succeeds.

        ``unanswered_max_ms`` bounds its waits unless a log was found to be corrupt.
        """
        self.epoch = 0
        self.serving = False
        self.last_error = ""
        self.wake = asyncio.Event()
        self.stopped = asyncio.Event()
        self.stopped.set()
        self._clock = clock
        self._backoff = backoff
        self._unanswered_max_ms = unanswered_max_ms
        self._corruption: CorruptLogError | None = None
        self._ended = False

    def end(self) -> None:
        """The host reports the end of the epoch (fenced, disk failure)."""
        if self.serving:
            self._ended = True
            self.wake.set()

    @property
    def why_not_led(self) -> str:
        """Why the last term failed; of an epoch that ended by itself the host logs the cause."""
        return self.last_error or (
            "its epoch ended: it was fenced, or its log failed, as a line before this one says"
        )

    # ---- what differs ----------------------------------------------------------------------------

    @abstractmethod
    async def run(self) -> None:
        """Win, lead, relinquish, over and over."""

    @abstractmethod
    async def _raise_epoch(self, held: Held, above: int) -> int | None:
        """Return an epoch above ``above`` (0: any), written to the store; None: no longer ours."""

    @abstractmethod
    async def _start_host(self, held: Held) -> None:
        """Have the host start under ``self.epoch``."""

    @abstractmethod
    async def _serve(self, held: Held) -> None:
        """Return when it must be relinquished: session lost, ``_ended``, or another is to lead."""

    @abstractmethod
    async def _stop_host(self, held: Held, *, orderly: bool) -> None:
        """Return when nothing can be confirmed any more; ``orderly``: the epoch has not ended."""

    # ---- leading ---------------------------------------------------------------------------------

    async def _lead(self, held: Held, *, above: int = 0) -> bool:
        """Start, serve and stop; return whether that failed though the session was valid."""
        self.stopped.clear()
        self._ended, self._corruption = False, None
        orderly = False
        try:
            if not await self._start(held, above):
                return held.session.valid
            self.serving, self.last_error = True, ""
            self._backoff.reset()
            await self._serve(held)
            orderly = not self._ended
            return self._ended
        finally:
            self.serving = False
            try:
                await self._stop_host(held, orderly=orderly)
            finally:
                self.stopped.set()

    async def _start(self, held: Held, above: int) -> bool:
        """Start under an epoch above ``above`` and above any fence that the host finds."""
        for attempt in range(FENCE_ATTEMPTS):
            epoch = await self._raise_epoch(held, above)
            if epoch is None:
                return False
            self.epoch = epoch
            try:
                return await self._start_once(held)
            except FencedError as error:
                # A store that was restored from a backup is behind the data: go above it.
                self.last_error = f"fenced: {error}"
                above = max(error.fence_epoch, epoch + (1 << attempt) - 1)
            except Exception as error:
                self.last_error = f"{type(error).__name__}: {error}"
                if isinstance(error, CorruptLogError):
                    self._corruption = error
                return False
        return False

    def _rest_ms_after_failure(self) -> int:
        """Return how long to leave it after a term that failed."""
        wait_ms = self._backoff.next_ms()
        if self._corruption is not None:
            return wait_ms
        return min(wait_ms, self._unanswered_max_ms)

    async def _start_once(self, held: Held) -> bool:
        if not held.session.valid:
            return False
        starting = asyncio.create_task(self._start_host(held))
        lost = asyncio.create_task(held.session.lost())
        try:
            await asyncio.wait({starting, lost}, return_when=asyncio.FIRST_COMPLETED)
            if lost.done() or not held.session.valid:
                return False
            starting.result()
            return True
        finally:
            lost.cancel()
            await cancel_and_wait(starting)

    async def _wait(
        self, duration_ms: int | None, other: "asyncio.Task[Any] | None" = None
    ) -> None:
        """Return on wake, after ``duration_ms`` (None: no limit) or when ``other`` is done."""
        limit = () if duration_ms is None else (self._clock.sleep_ms(duration_ms),)
        await first_done(self.wake.wait(), *limit, *(() if other is None else (other,)))


Key = TypeVar("Key", bound=Hashable)
Life = TypeVar("Life", bound=Leadership[Any])


class Leaderships(Generic[Key, Life]):
    """The leaderships of one process by what they lead; a lost session stops all of them."""

    def __init__(
        self, member: ClusterMember, on_ended: Callable[[Callable[[Key], None]], None]
    ) -> None:
        """``on_ended`` registers with the host what is called when an epoch ended by itself."""
        self._member = member
        self._lives: dict[Key, Life] = {}
        self._unsubscribe: Callable[[], None] | None = None
        on_ended(self._ended)
        member.on_lost(self._until_stopped)
        member.on_registered(self._registered)

    @property
    def led(self) -> dict[Key, int]:
        """What this process leads now, with its epochs."""
        return {key: life.epoch for key, life in self._lives.items() if life.serving}

    @property
    def errors(self) -> dict[Key, str]:
        """Why something could not be led last time."""
        return {key: life.last_error for key, life in self._lives.items() if life.last_error}

    def _registered(self) -> None:
        """The member has a session again."""
        self._wake_all()

    def _wake_all(self) -> None:
        for life in self._lives.values():
            life.wake.set()

    def _ended(self, key: Key) -> None:
        life = self._lives.get(key)
        if life is not None:
            life.end()

    async def _until_stopped(self) -> None:
        for life in tuple(self._lives.values()):
            await life.stopped.wait()
