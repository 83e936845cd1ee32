"""Who a caller is: certificate, the cluster's secret, or a header that a proxy sets."""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sharemesh.rpc.tls import ANONYMOUS, principal_of

SECRET_HEADER = "sharemesh-cluster-secret"  # noqa: S105 - its name, not a secret
PRINCIPAL_CHARS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Principals:
    """How callers are known, the first that applies.

    Attributes:
        secret: Calls with this text in ``SECRET_HEADER`` are from ``node``; empty: none are.
        node: The principal of the cluster's own processes.
        header: Metadata key whose value names the user of callers without a certificate; empty:
            none. Only for servers that nobody but a trusted proxy can reach.
    """

    secret: str = ""
    node: str = ""
    header: str = ""

    def of(self, identity: Mapping[str, object], metadata: Iterable[tuple[str, str]]) -> str:
        """Return the principal of a call: ``node``, ``User:<name>`` or ``User:ANONYMOUS``."""
        sent = dict(metadata)
        given = sent.get(SECRET_HEADER, "")
        if self.secret and hmac.compare_digest(given.encode(), self.secret.encode()):
            return self.node
        verified = principal_of(identity)
        if verified != ANONYMOUS or not self.header:
            return verified
        name = sent.get(self.header, "")
        return f"User:{name}" if 0 < len(name) <= PRINCIPAL_CHARS_MAX else ANONYMOUS
