"""Numbers of processes for Kafka's clients: one for each node id, for ever (spec KLS-8)."""

from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import Keys
from sharemesh.domain.ids import NodeId
from sharemesh.ports.coordination import Coordination, CoordinationError, Guard, Put

_ATTEMPTS = 20
_FIRST = 1
_LAST = 2**31 - 1 - 1_000_000
"""Clients count down from the highest number for connections of their own."""


async def kafka_node_number(coordination: Coordination, cluster_id: str, node_id: NodeId) -> int:
    """Return the number of a node id; it gets the next free one the first time.

    Raises:
        CoordinationError: The store does not answer, others keep taking numbers, or all of them
            were given out.
    """
    keys = Keys(cluster_id)
    own = keys.kafka_node(node_id)
    for _ in range(_ATTEMPTS):
        stored = await coordination.get(own)
        if stored is not None:
            return records.decode_number(stored.value)
        counter = await coordination.get(keys.next_kafka_node)
        number = _FIRST if counter is None else records.decode_number(counter.value)
        if number > _LAST:
            raise CoordinationError("all numbers of processes for Kafka's clients were given out")
        guards = [
            Guard(own, create_revision=0),
            Guard(
                keys.next_kafka_node, mod_revision=0 if counter is None else counter.mod_revision
            ),
        ]
        puts = [
            Put(own, records.encode_number(number)),
            Put(keys.next_kafka_node, records.encode_number(number + 1)),
        ]
        if await coordination.commit(guards, puts) is not None:
            return number
    raise CoordinationError(
        f"others took numbers for Kafka's clients {_ATTEMPTS} times meanwhile; try again"
    )
