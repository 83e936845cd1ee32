"""What is said of the listener for clients of Kafka: where it is, and what is missing."""

from collections.abc import Iterable

import sharemesh_operator.resources.names as w
from sharemesh.ports.cluster import KAFKA_ROLES
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.rollout import Seen

_KIND = "KafkaListenerReady"
_NAMES_MAX = 5


def listener_ready(
    spec: ClusterSpec, seen: Seen, *, users: int, waiting: tuple[str, ...]
) -> Condition:
    """Return whether clients of Kafka reach every pod that they are sent to, and may log in.

    Args:
        spec: The cluster; it has a listener.
        seen: Its pods.
        users: How many users have passwords.
        waiting: Services without an address of their load balancer.
    """
    assert spec.kafka_listener is not None
    nodes = seen.nodes
    pods = [pod.name for pod in seen.pods if pod.role in KAFKA_ROLES and not pod.terminating]
    if nodes is None or not any(nodes[name].listens for name in pods if name in nodes):
        return Condition.unknown(_KIND, "Starting", "no pod listens for clients of Kafka yet")
    deaf = [name for name in pods if name in nodes and not nodes[name].listens]
    if deaf:
        return Condition.false(
            _KIND,
            "PodsNotListening",
            f"no listener is in {_some(deaf)}: to clients of Kafka what these lead has no leader, "
            "until they are restarted (see Progressing) with an image that knows listeners",
        )
    if waiting:
        return Condition.false(
            _KIND,
            "AddressesPending",
            f"Services {_some(waiting)} have no address of a load balancer yet: see their events, "
            "or use serviceType NodePort",
        )
    if spec.kafka_listener.needs_passwords and not users:
        return Condition.false(
            _KIND,
            "NoUsers",
            "clients of Kafka have to log in, and no user has a password: `sharemesh users create "
            "NAME` in a pod gives one",
        )
    told = [spec.kafka_bootstrap, external_kafka_bootstrap(spec)]
    where = " and ".join(each for each in told if each)
    return Condition.true(_KIND, "Listening", f"clients of Kafka begin at {where}")


def external_kafka_bootstrap(spec: ClusterSpec) -> str | None:
    """Return the address for first contacts from outside; None: there is none."""
    listener = spec.kafka_listener
    if listener is None or listener.external is None:
        return None
    return listener.external.bootstrap(spec.name)


def services_without_address(spec: ClusterSpec, live: Iterable[KubeObject]) -> tuple[str, ...]:
    """Return the Services for clients of Kafka whose load balancer has given no address yet."""
    if spec.kafka_listener is None:
        return ()
    found = (
        each["metadata"]["name"]
        for each in live
        if each["kind"] == "Service"
        and each["spec"].get("type") == "LoadBalancer"
        and w.role_of(each) in KAFKA_ROLES
        and not ((each.get("status") or {}).get("loadBalancer") or {}).get("ingress")
    )
    return tuple(sorted(name for name in found if name.endswith(spec.kafka_service(""))))


def _some(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _NAMES_MAX} more" if len(found) > _NAMES_MAX else ""
    return ", ".join(found[:_NAMES_MAX]) + more
