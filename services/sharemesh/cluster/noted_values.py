"""Values of the coordination store to which several processes add what they know, a little late."""

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from sharemesh.cluster.store.records import RecordFormatError
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import (
    OPERATIONS_MAX,
    Coordination,
    CoordinationError,
    Guard,
    Put,
)
from sharemesh.tasks import OwnedTasks, cancel_and_wait, first_done

SETTLE_TIMEOUT_MS = 2_000
ATTEMPTS = 5  # of a read and guarded write; each loss means that another process got through

Value = TypeVar("Value")
_log = logging.getLogger(__name__)


class ValueRules(NamedTuple, Generic[Value]):
    """What is particular to one kind of value.

    Attributes:
        what: Its name in the log: "… is not remembered now".
        encode, decode: Its bytes; ``decode`` raises RecordFormatError.
        merged: What stands afterwards, of what stood there and what is added.
        interval_ms: How late a note may be written.
    """

    what: str
    encode: Callable[[Value], bytes]
    decode: Callable[[bytes], Value]
    merged: Callable[[Value | None, Value], Value]
    interval_ms: int


class NotedValues(Generic[Value]):
    """One kind of values by key; all notes of an interval are one transaction.

    What could not be written stays noted until it can be, whoever leads by then. What stands in the
    store is remembered of keys that were read or noted here, until they are forgotten.
    """

    def __init__(self, coordination: Coordination, clock: Clock, rules: ValueRules[Value]) -> None:
        self._coordination = coordination
        self._clock = clock
        self._rules = rules
        self._held: dict[str, None] = {}
        self._known: dict[str, tuple[int, Value | None]] = {}  # of keys that are held
        self._notes: dict[str, tuple[Callable[[], Value], Callable[[Value], None]]] = {}
        self._tasks = OwnedTasks(rules.what)
        self._writing: asyncio.Task[None] | None = None
        self._is_failure_said = False

    async def read(self, key: str) -> Value | None:
        """Return what stands there; None: nothing.

        Raises:
            CoordinationError: The store does not answer, or holds what cannot be read.
        """
        self._held[key] = None
        return (await self._read(key))[1]

    async def add(self, key: str, own: Value) -> Value:
        """Write what is known here in addition to what stands there; return what then stands.

        Raises:
            CoordinationError: As ``read``, or others write all the time.
        """
        self._held[key] = None
        return await self._add(key, own)

    def note(
        self, key: str, own: Callable[[], Value], hear: Callable[[Value], None] = lambda _: None
    ) -> None:
        """Add soon what ``own`` returns then; ``hear`` gets what stands afterwards."""
        self._held[key] = None
        self._notes[key] = (own, hear)
        if self._writing is None:
            self._writing = self._tasks.spawn(self._write())

    async def settle(self, key: str) -> None:
        """Write a note now, if that is possible soon; never raises for the store."""
        if key not in self._notes:
            return
        work = asyncio.ensure_future(self._settle(key))
        try:
            await first_done(work, self._clock.sleep_ms(SETTLE_TIMEOUT_MS))
        finally:
            await cancel_and_wait(work)

    def forget(self, key: str) -> None:
        """Remember a key no longer; a note of it is written nevertheless."""
        self._held.pop(key, None)
        self._known.pop(key, None)

    async def close(self) -> None:
        """Stop writing."""
        await self._tasks.close()

    async def _add(self, key: str, own: Value) -> Value:
        for _ in range(ATTEMPTS):
            revision, stored = await self._read(key)
            value = self._rules.merged(stored, own)
            if value == stored:
                return value
            put = Put(key, self._rules.encode(value))
            written = await self._coordination.commit([Guard(key, mod_revision=revision)], [put])
            if written is not None:
                self._know(key, written, value)
                return value
        raise CoordinationError(f"{key} was changed {ATTEMPTS} times meanwhile")

    async def _settle(self, key: str) -> None:
        try:
            await self._write_one(key)
        except CoordinationError as error:
            self._say(error)

    async def _write(self) -> None:
        try:
            while self._notes:
                await self._clock.sleep_ms(self._rules.interval_ms)
                keys = list(self._notes)
                try:
                    for first in range(0, len(keys), OPERATIONS_MAX):
                        await self._write_some(keys[first : first + OPERATIONS_MAX])
                except CoordinationError as error:
                    self._say(error)
                else:
                    self._is_failure_said = False
        finally:
            self._writing = None

    async def _write_some(self, keys: list[str]) -> None:
        if not await self._at_once([key for key in keys if key in self._notes]):
            for key in keys:
                await self._write_one(key)

    async def _write_one(self, key: str) -> None:
        note = self._notes.pop(key, None)
        if note is None:
            return
        try:
            value = await self._add(key, note[0]())
        except BaseException:
            self._notes.setdefault(key, note)
            raise
        note[1](value)

    async def _at_once(self, keys: list[str]) -> bool:
        """Write all in one transaction; False: somebody else wrote meanwhile, or might have."""
        if not all(key in self._known for key in keys):
            return False
        merged = self._rules.merged
        notes = {key: self._notes[key] for key in keys}
        news = {key: merged(self._known[key][1], own()) for key, (own, _) in notes.items()}
        news = {key: value for key, value in news.items() if value != self._known[key][1]}
        for key in keys:
            del self._notes[key]
        try:
            revision: int | None = 0
            if news:
                revision = await self._coordination.commit(
                    [Guard(key, mod_revision=self._known[key][0]) for key in news],
                    [Put(key, self._rules.encode(value)) for key, value in news.items()],
                )
        except BaseException:
            self._notes = {**notes, **self._notes}
            raise
        if revision is None:
            self._notes = {**notes, **self._notes}
            return False
        for key, value in news.items():
            self._know(key, revision, value)
            notes[key][1](value)
        return True

    async def _read(self, key: str) -> tuple[int, Value | None]:
        """Return a revision, and what stands there then."""
        stored = await self._coordination.get(key)
        if stored is None:
            return self._know(key, 0, None)
        try:
            value = self._rules.decode(stored.value)
        except RecordFormatError as error:
            raise CoordinationError(f"{key}: {error}") from error
        return self._know(key, stored.mod_revision, value)

    def _know(self, key: str, revision: int, value: Value | None) -> tuple[int, Value | None]:
        if key in self._held:
            self._known[key] = (revision, value)
        return revision, value

    def _say(self, error: CoordinationError) -> None:
        if not self._is_failure_said:
            self._is_failure_said = True
            _log.warning("%s is not remembered now, again soon: %s", self._rules.what, error)
