"""One quota that is a count: who may have one more (spec QUO-12)."""

from sharemesh.domain.quota.names import QuotaName
from sharemesh.ports.quotas import Quotas
from sharemesh.throttling.quota_signals import QuotaSignals


class CountedQuota:
    """Says why one more is refused; who keeps the things keeps their number."""

    def __init__(self, name: QuotaName, quotas: Quotas, signals: QuotaSignals) -> None:
        self._name = name
        self._quotas = quotas
        self._signals = signals

    def limit(self, entity: str) -> float | None:
        """Return how many this one may have; None: as many as it likes."""
        return self._quotas.limit(self._name, entity)

    def exceeded(self, entity: str, count: int) -> str:
        """Return why one that has ``count`` may have no more, in words; empty: it may."""
        limit = self._quotas.limit(self._name, entity)
        if limit is None or count < limit:
            return ""
        return f"{self._signals.refused(self._name, entity, limit)}; it has {count}"
