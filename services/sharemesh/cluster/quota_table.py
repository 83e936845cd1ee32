"""The quotas of a process: none, for clusters and tests that have no table of them."""

from collections.abc import Callable

from sharemesh.domain.quota.names import QuotaName


class Unlimited:
    """Fills ``ports.quotas.Quotas`` without quotas."""

    def limit(self, name: QuotaName, entity: str) -> float | None:  # noqa: ARG002 - the port's words
        """Return None: nothing binds anybody."""
        return None

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Never call back: there are no quotas."""
        return lambda: None
