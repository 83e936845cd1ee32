"""How many calls are open in a process and whose they are (spec BND-2)."""

from collections import Counter
from collections.abc import Iterable

from sharemesh.rpc.limits import ServerLimits


class OpenCalls:
    """Counts open calls: clients have a bound together, one principal a smaller one.

    The cluster's own principals have neither: only clients are refused here, so that what gRPC
    takes beyond the clients' bound is left for them.
    """

    def __init__(self, limits: ServerLimits, own: Iterable[str] = ()) -> None:
        self._of_clients_max = limits.max_concurrent_calls
        self._of_principal_max = limits.max_principal_calls
        self._own = frozenset(own)
        self._of_principal: Counter[str] = Counter()
        self._of_clients = 0
        self._beyond: set[str] = set()

    @property
    def of_clients(self) -> int:
        """Open calls of all clients."""
        return self._of_clients

    def began(self, principal: str) -> str:
        """Count a call; or return why it is refused, without counting it."""
        if principal in self._own:
            return ""
        if self._of_principal[principal] >= self._of_principal_max:
            return (
                f"{principal} has {self._of_principal_max} calls open here, the most that one "
                "principal may have: end streams that are not needed, and try again"
            )
        if self._of_clients >= self._of_clients_max:
            return (
                f"{self._of_clients} calls of clients are open here, the most that this process "
                "takes: try again later"
            )
        self._of_principal[principal] += 1
        self._of_clients += 1
        return ""

    def ended(self, principal: str) -> None:
        """A call that was counted is over."""
        if principal in self._own:
            return
        self._of_clients -= 1
        left = self._of_principal[principal] - 1
        if left > 0:
            self._of_principal[principal] = left
        else:
            del self._of_principal[principal]
        if left <= self._of_principal_max // 2:
            self._beyond.discard(principal)

    def first_refusal(self, principal: str) -> bool:
        """Return whether this is to be said: once, until the principal has half of its calls."""
        if principal in self._beyond or len(self._beyond) >= self._of_clients_max:
            return False
        self._beyond.add(principal)
        return True
