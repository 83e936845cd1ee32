"""Searches the log of a shard for the changes of one record; bounded, in the background."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from sharemesh.codec.state_record import UnreadableRecordError, decode_for
from sharemesh.domain.ids import SharePartitionKey, format_key
from sharemesh.domain.quota.counts import OpenCounts
from sharemesh.domain.share_state.record_history import RecordChange, RecordHistory
from sharemesh.domain.share_state.records import StateSnapshot, StateUpdate, Tombstone
from sharemesh.places import SharedPlaces
from sharemesh.ports.clock import Clock
from sharemesh.ports.shard_log import CorruptLogError, LogRecord
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.share_coordinator.shard_kind import StateShard

_SLICE_RECORDS = 2_000
_SLICE_BYTES = 32 * 1024
"""Decoded without a turn of the loop in between."""


@dataclass(frozen=True, slots=True)
class Found:
    """The events of one record; ``problem`` says why some are missing, if something went wrong."""

    events: tuple[RecordChange, ...] = ()
    is_whole: bool = False
    from_ms: int = 0
    problem: str = ""


class HistorySearch:
    """One search at a time: others wait, within the time that each has (settings ``history_*``).

    They wait in turn over the principals that leaders ask for, of which one has at most half of
    what may wait (EXP-11). Searches without a principal may have all: then nobody has a name.
    Blocks are read and split in the disk's threads. The loop compares keys and decodes what is of
    the share partition asked for, a slice at a time.
    """

    def __init__(self, clock: Clock, settings: ShareCoordinatorSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._one = SharedPlaces(1)
        self._asked = OpenCounts()

    async def events(
        self, shard: StateShard, key: SharePartitionKey, offset: int, principal: str
    ) -> Found:
        """Return what the retained log of a shard says of one offset of a share partition."""
        everybody = self._asked.total
        if everybody >= self._settings.history_requests:
            return Found(problem=f"{everybody} other searches are under way; ask again")
        own = self._asked.of(principal)
        if principal and own >= max(1, self._settings.history_requests // 2):
            return Found(problem=f"{own} other searches of {principal} are under way; ask again")
        self._asked.add(principal)
        try:
            limit_s = self._settings.history_time_ms / 1_000
            async with asyncio.timeout(limit_s), self._one.place(principal):
                return await self._search(shard, key, offset)
        except TimeoutError:
            limit_ms = self._settings.history_time_ms
            return Found(problem=f"the log was not searched within {limit_ms} ms")
        except (OSError, CorruptLogError, UnreadableRecordError) as error:
            return Found(problem=f"the log was not searched to its end: {error}")
        finally:
            self._asked.add(principal, -1)

    async def _search(self, shard: StateShard, key: SharePartitionKey, offset: int) -> Found:
        newest = shard.committed_end_offset - self._settings.history_records
        matches = _Matches(format_key(key).encode(), self._settings)
        async for chunk in shard.stored(max(newest, shard.log_start_offset)):
            for at in range(0, len(chunk), _SLICE_RECORDS):
                matches.take(chunk[at : at + _SLICE_RECORDS])
                await self._clock.sleep_ms(0)
        history = RecordHistory(offset)
        size = 0
        for stored in matches.kept:
            record = decode_for(offset, stored.key, stored.value)
            if isinstance(record, StateSnapshot | StateUpdate | Tombstone):
                history.take(record, stored.offset)
            size += len(stored.value or b"")
            if size >= _SLICE_BYTES:
                size = 0
                await self._clock.sleep_ms(0)
        return Found(history.events, history.is_whole, matches.from_ms)


class _Matches:
    """The newest records of one key, within the bounds of a search."""

    def __init__(self, key: bytes, settings: ShareCoordinatorSettings) -> None:
        self._key = key
        self._settings = settings
        self._bytes = 0
        self.kept: deque[LogRecord] = deque()
        self.from_ms = 0
        """When the oldest record was written that counts."""

    def take(self, chunk: Sequence[LogRecord]) -> None:
        """Keep those of the key; the oldest go when there are too many."""
        if not self.from_ms and chunk:
            self.from_ms = chunk[0].timestamp_ms
        for record in chunk:
            if record.key == self._key:
                self.kept.append(record)
                self._bytes += len(record.value or b"")
        while (
            len(self.kept) > self._settings.history_matches
            or self._bytes > self._settings.history_match_bytes
        ):
            self._bytes -= len(self.kept.popleft().value or b"")
            self.from_ms = self.kept[0].timestamp_ms if self.kept else chunk[-1].timestamp_ms
