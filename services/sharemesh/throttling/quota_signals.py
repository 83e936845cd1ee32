"""What quotas do, told once in the log and counted for each quota (spec QUO-15)."""

import logging

from sharemesh.domain.quota.names import QuotaName
from sharemesh.domain.quota.sentences import Spells, in_words
from sharemesh.ports.clock import Clock
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry

_log = logging.getLogger(__name__)


class QuotaSignals:
    """Log lines and metrics of one service; a metric has no name of a principal or group."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        """Begin at 0 for every quota, so that an alert sees the first time, too."""
        for name in QuotaName:
            registry.histogram(names.QUOTA_THROTTLE_TIME, name.value)
            registry.counter(names.QUOTA_REFUSALS, name.value)
        self._registry = registry
        self._clock = clock
        self._spells = Spells()

    def throttled(self, name: QuotaName, entity: str, limit: float, throttle_ms: int) -> None:
        """Somebody has to wait for so long."""
        self._registry.histogram(names.QUOTA_THROTTLE_TIME, name.value).record(throttle_ms / 1_000)
        if self._spells.begins((name, entity), self._clock.now_ms()):
            _log.warning("somebody is throttled: %s", in_words(name, entity, limit))

    def refused(self, name: QuotaName, entity: str, limit: float) -> str:
        """Something is refused; return the words for the one who asked."""
        words = in_words(name, entity, limit)
        self._registry.counter(names.QUOTA_REFUSALS, name.value).add()
        if self._spells.begins((name, entity, "refused"), self._clock.now_ms()):
            _log.warning("somebody is refused: %s", words)
        return words
