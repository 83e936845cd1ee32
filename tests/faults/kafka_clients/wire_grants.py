"""What leaders granted to Kafka's clients, read from the wire: who, which record, by whom, when.

Kafka's clients are not told under which leader epoch they hold a record, and their applications see
it long after its leader granted it. The history checker needs both. So each answer to a ShareFetch
is read as it passes, and the epoch is that under which its node had claimed the partition.
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_reader

from sharemesh.cluster.store.records import Claim
from sharemesh.domain.ids import TopicId, format_topic_id
from sharemesh.kafka.messages import SIZE_BYTES
from tests.history.journal import Entry, now_ms

HEARTBEAT_KEY, SHARE_FETCH_KEY = 76, 78
CLAIM_LATE_MS = 250.0
"""A claim may be heard of so much later than what was granted under it."""

_HEADER = struct.Struct(">ihhih")  # size, API key, version, correlation id, length of the client id
_Record = tuple[str, str, int]  # member, partition, offset


@dataclass(slots=True)
class _Grant:
    """One record in one answer; ``taken`` once a delivery is known to be it."""

    time_ms: float
    node: str
    count: int
    taken: bool = False


class WireGrants:
    """Hears of claims and answers; afterwards journals are brought together with them.

    Args:
        nodes: Whose answers they are, in the order of the proxy's ports.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = nodes
        self._ids: dict[str, str] = {}
        self._claims: dict[str, list[tuple[float, str, int]]] = defaultdict(list)
        self._grants: dict[_Record, list[_Grant]] = defaultdict(list)
        self._lost: Counter[_Record] = Counter()
        self.heartbeats: dict[str, float] = {}
        """When each member last had a heartbeat answered without an error."""

    def name(self, topic_id: TopicId, topic: str) -> None:
        """Say which topic has this id."""
        self._ids[topic] = format_topic_id(topic_id)

    def claimed(self, place: str, claim: Claim) -> None:
        """Take a claim of "topic id/partition"."""
        found = (now_ms(), str(claim.node_id), claim.leader_epoch)
        if not self._claims[place] or self._claims[place][-1][1:] != found[1:]:
            self._claims[place].append(found)

    def answered(self, server: int, request: bytes, answer: bytes, whole: bool) -> None:
        """Take an answer that passes, or is cut short."""
        _, key, version, _, length = _HEADER.unpack_from(request)
        if key not in (HEARTBEAT_KEY, SHARE_FETCH_KEY) or length < 0:
            return
        member = request[_HEADER.size : _HEADER.size + length].decode()
        schema: Any = load_response_schema(key, version)
        _, used = entity_reader(schema.__header_schema__)(answer, SIZE_BYTES)
        content, _ = entity_reader(schema)(answer, SIZE_BYTES + used)
        at_ms, node = now_ms(), self._nodes[server]
        if key == HEARTBEAT_KEY:
            if whole and not content.error_code:
                self.heartbeats[member] = at_ms
            return
        for topic in content.responses:
            name = format_topic_id(TopicId(topic.topic_id.bytes))
            for part in topic.partitions:
                place = f"{name}/{part.partition_index}"
                for acquired in part.acquired_records:
                    for offset in range(acquired.first_offset, acquired.last_offset + 1):
                        record = (member, place, offset)
                        if whole:
                            granted = _Grant(at_ms, node, acquired.delivery_count)
                            self._grants[record].append(granted)
                        else:
                            self._lost[record] += 1

    def attributed(self, entries: Iterable[Entry], violations: list[str]) -> list[Entry]:
        """Return journal entries; each delivery with the epoch and the time of its grant.

        A member that got a record twice with one delivery count, of two leaders, got them in order:
        from the last delivery back each is taken for the newest grant that is left. What nobody
        granted is a violation.
        """
        found: list[Entry] = []
        for entry in reversed(list(entries)):
            if entry.event == "delivered":
                found += reversed(self._deliveries(entry, violations))
            else:
                found.append(entry)
        found.reverse()
        return found

    def _deliveries(self, entry: Entry, violations: list[str]) -> list[Entry]:
        partition = entry.fields["p"]
        place = self._place(partition)
        found = []
        for first, last, count in entry.fields["r"]:
            for offset in range(first, last + 1):
                grant = self._grant(entry, place, offset, count)
                if grant is None:
                    where = f"{partition}@{offset} with count {count}"
                    violations.append(f"{entry.who} got {where}, which nobody granted to it")
                    continue
                grant.taken = True
                fields = {
                    "p": partition,
                    "le": self._epoch(place, grant),
                    "r": [[offset, offset, count]],
                    "granted_ms": grant.time_ms,
                }
                found.append(Entry(entry.time_ms, entry.who, "delivered", fields))
        return found

    def lost(self, members: Iterable[str], partition: str, offset: int) -> int:
        """Return how many answers to members, with this record, did not reach them whole."""
        place = self._place(partition)
        return sum(self._lost[member, place, offset] for member in members)

    def _place(self, partition: str) -> str:
        topic, _, number = partition.partition("/")
        return f"{self._ids[topic]}/{number}"

    def _grant(self, entry: Entry, place: str, offset: int, count: int) -> _Grant | None:
        for grant in reversed(self._grants.get((entry.who, place, offset), [])):
            if grant.count == count and grant.time_ms <= entry.time_ms and not grant.taken:
                return grant
        return None

    def _epoch(self, place: str, grant: _Grant) -> int:
        """Return the epoch under which a node led a partition when it answered."""
        own = [found for found in self._claims[place] if found[1] == grant.node]
        assert own, f"{grant.node} never claimed {place}"
        begun = [epoch for at_ms, _, epoch in own if at_ms <= grant.time_ms + CLAIM_LATE_MS]
        return begun[-1] if begun else own[0][2]
