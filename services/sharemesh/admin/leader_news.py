"""Metadata requests that wait for new leaders: found by partition, bounded (BND-22)."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import ClusterView

MAX_WAITING = 10_000
"""Metadata requests that wait at the same time; more are answered at once."""

MAX_WAITED_FOR = 100_000
"""Partitions that all of them wait for together; a request beyond that is answered at once."""

MAX_OF_A_REQUEST = 100
"""Partitions that one request waits for: the first of those that its caller may see."""

WOKEN_AT_ONCE = 100
"""Requests that are woken in one turn of the loop."""


class LeaderNews:
    """Wakes only the requests that wait for a partition whose leader may have changed."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._waiters: dict[TopicPartition, dict[asyncio.Event, None]] = {}
        self._woken: dict[asyncio.Event, None] = {}
        self._waiting = 0
        self._waited_for = 0
        view.on_leaders(self._changed)

    async def wait(
        self,
        awaited: Mapping[TopicPartition, int],
        may_see: Callable[[TopicPartition], bool],
        *,
        timeout_ms: int,
    ) -> None:
        """Wait until one partition is led above its epoch, and may be seen (AUT-1, AUT-4)."""
        seen = dict(
            islice(((p, above) for p, above in awaited.items() if may_see(p)), MAX_OF_A_REQUEST)
        )
        if not seen or self._is_news(seen, may_see) or not self._has_room(len(seen)):
            return
        woken = asyncio.Event()
        self._add(woken, seen)
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while not self._is_news(seen, may_see):
                    woken.clear()
                    await woken.wait()
        except TimeoutError:
            pass
        finally:
            self._remove(woken, seen)

    def _is_news(
        self, awaited: Mapping[TopicPartition, int], may_see: Callable[[TopicPartition], bool]
    ) -> bool:
        leaders = ((each, self._view.leader(each), above) for each, above in awaited.items())
        return any(
            leader and leader.leader_epoch > above and may_see(each)
            for each, leader, above in leaders
        )

    def _has_room(self, partitions: int) -> bool:
        return self._waiting < MAX_WAITING and self._waited_for + partitions <= MAX_WAITED_FOR

    def _add(self, woken: asyncio.Event, partitions: Collection[TopicPartition]) -> None:
        self._waiting += 1
        self._waited_for += len(partitions)
        for partition in partitions:
            self._waiters.setdefault(partition, {})[woken] = None

    def _remove(self, woken: asyncio.Event, partitions: Collection[TopicPartition]) -> None:
        self._waiting -= 1
        self._waited_for -= len(partitions)
        self._woken.pop(woken, None)
        for partition in partitions:
            waiters = self._waiters[partition]
            waiters.pop(woken, None)
            if not waiters:
                del self._waiters[partition]

    def _changed(self, partitions: Iterable[TopicPartition] | None) -> None:
        """Wake the requests that wait for these partitions; None: for any."""
        begins = not self._woken
        for partition in list(self._waiters) if partitions is None else partitions:
            self._woken.update(dict.fromkeys(self._waiters.get(partition, ())))
        if begins and self._woken:
            self._wake_some()

    def _wake_some(self) -> None:
        for woken in list(islice(self._woken, WOKEN_AT_ONCE)):
            del self._woken[woken]
            woken.set()
        if self._woken:
            asyncio.get_running_loop().call_soon(self._wake_some)
