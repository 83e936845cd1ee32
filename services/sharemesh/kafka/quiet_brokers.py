"""Brokers that had news of a watch's partitions and have none any more (KBR-17).

One that is cut off from the others goes on answering, for as long as that lasts, that nothing is
new: no error and no time-out tells that another broker leads.
"""

from collections.abc import Iterable

from sharemesh.ports.brokers import BrokerAddress, BrokerPartition

QUIET_MS = 1_000
QUIET_MAX_MS = 10_000
"""A partition that has been quiet for longer is taken for an idle one."""

ASK_EVERY_MS = 500


class QuietBrokers:
    """Remembers for ten seconds what was new of which partition; the time is the caller's."""

    def __init__(self) -> None:
        self._news: dict[BrokerPartition, tuple[BrokerAddress, int]] = {}
        self._asked_ms = -ASK_EVERY_MS

    def heard(self, broker: BrokerAddress, places: Iterable[BrokerPartition], now_ms: int) -> None:
        """A broker had news of partitions."""
        for place in places:
            self._news[place] = broker, now_ms

    def doubtful(self, now_ms: int) -> dict[BrokerPartition, BrokerAddress]:
        """Return whose lead of which partition is to be asked for; at most twice a second some."""
        if now_ms - self._asked_ms < ASK_EVERY_MS:
            return {}
        self._asked_ms = now_ms
        self._news = {
            place: found for place, found in self._news.items() if now_ms - found[1] <= QUIET_MAX_MS
        }
        newest: dict[BrokerAddress, int] = {}
        for broker, heard_ms in self._news.values():
            newest[broker] = max(heard_ms, newest.get(broker, heard_ms))
        return {
            place: broker
            for place, (broker, _) in self._news.items()
            if now_ms - newest[broker] >= QUIET_MS
        }
