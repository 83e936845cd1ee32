"""Problems between objects, their cluster and the operator: reasons and messages."""

from dataclasses import dataclass

from sharemesh_operator.resources.conditions import Condition

REFUSED = "Refused"
NOT_OPENED = "StorageNotOpened"
"""Of a cluster that etcd knows, and whose pods have not reached their storage yet."""

_TEXTS = {
    "ClusterNotFound": "there is no ShareCluster {name!r} in namespace {namespace!r}; create it, "
    "or correct clusterRef",
    "ClusterNotReady": "the cluster did not answer: {why}",
    "ClusterMismatch": "{why}",
    "EtcdUnavailable": "etcd at {where} does not answer ({why}); leaders keep serving what "
    "they lead, but no new leader can be elected: start etcd again",
    "SecretNotMounted": "the operator has no {files} of Secret {secret!r}; name the Secret in the "
    "value secrets of chart sharemesh (the operator reads no Secrets itself)",
    NOT_OPENED: "{why}",
    "KafkaUnreachable": "the operator cannot ask the brokers of {where} for topics: {why}. What is "
    "attached stays as it is",
    "NotElected": "another replica of the operator leads",
    REFUSED: "{why}",
}
"""What is said with each reason, and what to do."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps an object from being ready; the message says what to do."""

    reason: str
    message: str

    def condition(self, kind: str) -> Condition:
        """Return the condition that this problem makes false."""
        return Condition(kind, status=False, reason=self.reason, message=self.message)


def problem(reason: str, **about: object) -> Problem:
    """Return the problem of this reason."""
    return Problem(reason, _TEXTS[reason].format(**about))
