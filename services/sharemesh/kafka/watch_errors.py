"""Errors of watched partitions: when each is told, and when the partition is asked again."""

from dataclasses import dataclass

from sharemesh.backoff import Backoff
from sharemesh.ports.brokers import BrokerPartition

TELL_AGAIN_MS = 10_000
ASK_AGAIN_FIRST_MS = 50
ASK_AGAIN_MOST_MS = 500


@dataclass(slots=True)
class _Failing:
    code: int
    told_ms: int
    failed_ms: int
    not_before_ms: int
    backoff: Backoff


class WatchErrors:
    """What fails of one watch; the time comes from the caller (KBR-15)."""

    def __init__(self) -> None:
        self._failing: dict[BrokerPartition, _Failing] = {}

    def failed(self, place: BrokerPartition, code: int, now_ms: int) -> bool:
        """Take in an error; return whether to tell it: a new one, or one that lasts."""
        found = self._failing.get(place)
        is_new = found is None or now_ms - found.failed_ms >= TELL_AGAIN_MS
        if found is None or is_new:
            backoff = Backoff(ASK_AGAIN_FIRST_MS, ASK_AGAIN_MOST_MS)
            found = self._failing[place] = _Failing(code, now_ms, now_ms, now_ms, backoff)
        tell = is_new or found.code != code or now_ms - found.told_ms >= TELL_AGAIN_MS
        if tell:
            found.code, found.told_ms = code, now_ms
        found.failed_ms = now_ms
        found.not_before_ms = now_ms + found.backoff.next_ms()
        return tell

    def forget(self, place: BrokerPartition) -> None:
        """It answered, is watched no longer, or is asked something else."""
        self._failing.pop(place, None)

    def may_ask(self, place: BrokerPartition, now_ms: int) -> bool:
        """Return whether the pause after its last error is over."""
        found = self._failing.get(place)
        return found is None or now_ms >= found.not_before_ms

    def pause_ms(self, now_ms: int, most_ms: int) -> int:
        """Return how long it is until one of them may be asked again, at most so long."""
        pauses = (each.not_before_ms - now_ms for each in self._failing.values())
        return min((each for each in pauses if 0 < each < most_ms), default=most_ms)
