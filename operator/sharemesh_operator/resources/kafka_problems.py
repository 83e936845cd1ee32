"""What keeps pods from their Kafka cluster, told from how their processes ended."""

from collections.abc import Sequence

from sharemesh.serve.exit_codes import ExitCode
from sharemesh_operator.resources.problems import Problem
from sharemesh_operator.resources.rollout import PodSeen

_PROBLEMS = {
    ExitCode.OTHER_CLUSTER: Problem(
        "ClusterIdChanged",
        "these brokers are not the Kafka cluster that this ShareCluster was made on: correct "
        "kafka.bootstrapServers",
    ),
    ExitCode.STORAGE_TAKEN: Problem(
        "TopicsTaken",
        "the topics of this prefix are another Sharemesh cluster's",
    ),
    ExitCode.STORAGE_MISCONFIGURED: Problem(
        "TopicsMisconfigured",
        "the topics of this cluster cannot be used as they are; the pod's log has the command "
        "that repairs them",
    ),
    ExitCode.STORAGE_TOO_FEW_REPLICAS: Problem(
        "TooFewReplicas",
        "there are fewer brokers than kafka.replicationFactor: start more",
    ),
    ExitCode.STORAGE_LOGIN_REFUSED: Problem(
        "AuthenticationFailed",
        "the brokers refuse the pods: correct kafka.tls, kafka.authentication or their Secrets, "
        "or give the principal its rights",
    ),
    ExitCode.STORAGE_UNREACHABLE: Problem(
        "KafkaUnreachable",
        "no broker answers: start them, correct kafka.bootstrapServers or the listeners that the "
        "brokers advertise, and let NetworkPolicies pass their ports",
    ),
}
"""What of several is told comes first: who was refused has reached the brokers."""
_BESIDE = {
    ExitCode.STORAGE_TAKEN: "; kafka.topicPrefix of a ShareCluster cannot be changed: delete it, "
    "and make it again with another one",
}
"""What the process does not know: how its settings are changed here."""


def kafka_problem(pods: Sequence[PodSeen]) -> Problem | None:
    """Return why pods cannot use their storage; None: no pod that is not ready says so."""
    away = [pod for pod in pods if not pod.ready]
    for code, told in _PROBLEMS.items():
        pod = next((each for each in away if each.exit_code == code), None)
        if pod is not None:
            words = f"{pod.last_words or told.message}{_BESIDE.get(code, '')}"
            return Problem(told.reason, f"{pod.name}: {words}")
    return None
