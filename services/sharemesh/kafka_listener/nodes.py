"""The processes that Kafka's clients reach, by the names that the cluster has for them."""

from collections.abc import Iterable
from typing import NamedTuple

from sharemesh.ports.cluster import KafkaEndpoint, NodeInfo

NOBODY = -1


class KafkaNode(NamedTuple):
    """One process as Kafka's clients see it."""

    number: int
    host: str
    port: int
    rack: str | None


class KafkaNodes:
    """Processes with a listener for Kafka's clients; others are not told."""

    def __init__(self, nodes: Iterable[NodeInfo]) -> None:
        self._by_name = {
            str(each.node_id): _node(each.kafka, each.rack)
            for each in nodes
            if each.kafka is not None
        }

    @property
    def all(self) -> list[KafkaNode]:
        """All of them, by number."""
        return sorted(self._by_name.values())

    @property
    def controller(self) -> int:
        """Whom to ask for changes of the cluster: any process takes them."""
        return min((each.number for each in self._by_name.values()), default=NOBODY)

    def named(self, node_id: str) -> KafkaNode | None:
        """Return a process by its node id, or None if clients of Kafka cannot reach it."""
        return self._by_name.get(node_id)

    def number(self, node_id: str) -> int:
        """Return a process's number, ``NOBODY`` if clients of Kafka cannot reach it."""
        found = self._by_name.get(node_id)
        return NOBODY if found is None else found.number

    def endpoints(self, node_ids: Iterable[str]) -> list[dict[str, object]]:
        """Return where these processes are, as answers tell that."""
        found = (self._by_name.get(each) for each in node_ids)
        return [
            {"node_id": each.number, "host": each.host, "port": each.port, "rack": each.rack}
            for each in found
            if each is not None
        ]


def _node(endpoint: KafkaEndpoint, rack: str) -> KafkaNode:
    return KafkaNode(endpoint.number, endpoint.host, endpoint.port, rack or None)
