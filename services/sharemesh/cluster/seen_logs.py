"""What owners of shard logs had confirmed, kept in the coordination store (port SeenLogs)."""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.records import RecordFormatError
from sharemesh.cluster.store.seen_records import decode_seen, encode_seen
from sharemesh.domain.stamped_log.seen import LostUnits, SeenUnits, merged
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import (
    OPERATIONS_MAX,
    Coordination,
    CoordinationError,
    Guard,
    Put,
)
from sharemesh.ports.shard_log import LogFailedError
from sharemesh.tasks import OwnedTasks, cancel_and_wait, first_done

NOTE_INTERVAL_MS = 1_000
SETTLE_TIMEOUT_MS = 2_000
ATTEMPTS = 5  # of a read and guarded write; each loss means that another owner got through

_log = logging.getLogger(__name__)


class _KnownSeen(NamedTuple):
    """A key as it was last read or written here; revision 0: absent."""

    mod_revision: int
    seen: SeenUnits | None


class _NotedUnits(NamedTuple):
    own: SeenUnits
    on_loss: Callable[[LostUnits], None]


class SeenLogsInStore:
    """Fills ``ports.seen_units.SeenLogs``; one transaction a second for all logs of a process.

    What could not be written stays noted, also when the log is led here no more.
    """

    def __init__(self, coordination: Coordination, cluster_id: str, clock: Clock) -> None:
        self._coordination = coordination
        self._keys = Keys(cluster_id)
        self._clock = clock
        self._known: dict[str, _KnownSeen] = {}
        self._notes: dict[str, _NotedUnits] = {}
        self._tasks = OwnedTasks("what shard logs had confirmed")
        self._writing: asyncio.Task[None] | None = None
        self._is_failure_said = False

    async def stored(self, name: str) -> SeenUnits | None:
        """Return what is remembered of a log; None: nothing yet."""
        try:
            return (await self._read(name)).seen
        except CoordinationError as error:
            raise _not_known(name, error) from error

    async def took_over(self, name: str, own: SeenUnits) -> SeenUnits:
        """Remember what a take-over found, before anything is served; return what then stands."""
        try:
            return await self._add(name, own)
        except CoordinationError as error:
            raise _not_known(name, error) from error

    def note(self, name: str, own: SeenUnits, on_loss: Callable[[LostUnits], None]) -> None:
        """Remember what an owner has confirmed, within a second."""
        self._notes[name] = _NotedUnits(own, on_loss)
        if self._writing is None:
            self._writing = self._tasks.spawn(self._write())

    async def settle(self, name: str) -> None:
        """Write what was noted of a log, if that is possible soon."""
        if name not in self._notes:
            return
        work = asyncio.ensure_future(self._settle(name))
        try:
            await first_done(work, self._clock.sleep_ms(SETTLE_TIMEOUT_MS))
        finally:
            await cancel_and_wait(work)

    async def close(self) -> None:
        """Stop writing."""
        await self._tasks.close()

    async def _settle(self, name: str) -> None:
        note = self._notes[name]
        try:
            self._written(name, note, await self._add(name, note.own))
        except CoordinationError as error:
            self._say(error)

    async def _write(self) -> None:
        try:
            while self._notes:
                await self._clock.sleep_ms(NOTE_INTERVAL_MS)
                notes = dict(list(self._notes.items())[:OPERATIONS_MAX])
                try:
                    if not await self._at_once(notes):
                        for name, note in notes.items():
                            self._written(name, note, await self._add(name, note.own))
                except CoordinationError as error:
                    self._say(error)
                else:
                    self._is_failure_said = False
        finally:
            self._writing = None

    async def _at_once(self, notes: dict[str, _NotedUnits]) -> bool:
        """Write all in one transaction; False: another owner wrote meanwhile, or might have."""
        if not all(name in self._known for name in notes):
            return False
        news = {name: merged(self._known[name].seen, note.own) for name, note in notes.items()}
        keys = {name: self._keys.seen_log(name) for name in news}
        revision = await self._coordination.commit(
            [Guard(keys[name], mod_revision=self._known[name].mod_revision) for name in news],
            [Put(keys[name], encode_seen(seen)) for name, seen in news.items()],
        )
        if revision is None:
            return False
        for name, seen in news.items():
            self._known[name] = _KnownSeen(revision, seen)
            self._written(name, notes[name], seen)
        return True

    async def _add(self, name: str, own: SeenUnits) -> SeenUnits:
        """Write what is known here in addition to what stands there; return what then stands."""
        key = self._keys.seen_log(name)
        for _ in range(ATTEMPTS):
            known = await self._read(name)
            seen = merged(known.seen, own)
            if seen == known.seen:
                return seen
            guard = Guard(key, mod_revision=known.mod_revision)
            revision = await self._coordination.commit([guard], [Put(key, encode_seen(seen))])
            if revision is not None:
                self._known[name] = _KnownSeen(revision, seen)
                return seen
        raise CoordinationError(f"{key} was changed {ATTEMPTS} times meanwhile")

    async def _read(self, name: str) -> _KnownSeen:
        stored = await self._coordination.get(self._keys.seen_log(name))
        if stored is None:
            known = _KnownSeen(0, None)
        else:
            try:
                known = _KnownSeen(stored.mod_revision, decode_seen(stored.value))
            except RecordFormatError as error:
                raise CoordinationError(f"{stored.key}: {error}") from error
        self._known[name] = known
        return known

    def _written(self, name: str, note: _NotedUnits, seen: SeenUnits) -> None:
        if self._notes.get(name) is note:
            del self._notes[name]
        if seen.loss is not None:
            note.on_loss(seen.loss)

    def _say(self, error: CoordinationError) -> None:
        if not self._is_failure_said:
            self._is_failure_said = True
            _log.warning(
                "what shard logs have confirmed is not remembered now, again each second: %s", error
            )


def _not_known(name: str, error: CoordinationError) -> LogFailedError:
    return LogFailedError(
        f"shard {name}: the coordination store does not say how far its log was confirmed: {error}"
    )
