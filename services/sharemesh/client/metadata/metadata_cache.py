"""Who answers for what, and in which version: read from any process, cached and refreshed."""

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from sharemesh.backoff import Backoff
from sharemesh.client.config import ClientConfig, bootstrap_addresses
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import (
    ClusterAuthorizationFailedError,
    ConnectionFailedError,
    error_for,
)
from sharemesh.client.repeated_warnings import RepeatedWarnings
from sharemesh.domain.errors import ErrorCode, coordinator_moved
from sharemesh.methods import (
    API_VERSIONS,
    FIND_COORDINATOR,
    METADATA,
    SHARE_ACKNOWLEDGE,
    Method,
    Request,
    Response,
)
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import REFUSALS, Caller, CallFailedError, Failure
from sharemesh.v1 import admin_pb2
from sharemesh.v1.common_pb2 import CurrentLeader, Node

Attempt = tuple[str, CallFailedError]
_log = logging.getLogger(__name__)

PATIENCE_MS = 1_000
"""A cluster that does not answer is logged only after this long."""

AWAITED_MAX = 1_000
"""Partitions whose new leader one metadata request awaits."""

ATTEMPT_TIMEOUT_MS = 3_000
"""Longest wait for one process before another one is asked."""

_NOT_ELSEWHERE = REFUSALS | {Failure.INVALID_ARGUMENT, Failure.UNIMPLEMENTED}
"""Failures that every other process would answer with too."""

_ASKED_AGAIN = frozenset({ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT})
"""Results that are retried, as a moving coordinator is: none is known, or the look-up was slow."""


_FIRST_VERSION = 1
_RENEW_VERSION = 2
_LATEST_VERSION = 2
"""Versions of the share RPCs (spec WIRE-4)."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of one topic-partition."""

    node_id: str
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class CachedTopic:
    """A topic as metadata shows it; ``partitions`` is their number."""

    name: str
    topic_id: bytes
    partitions: int


class MetadataCache:
    """Metadata of the cluster; any process of it can be asked.

    Attributes:
        cluster_id: The cluster's id; empty before the first answer.
        controller_id: The node that is the controller.
        trouble: Why the last refresh failed; empty if it succeeded.
    """

    def __init__(
        self,
        environment: ClientEnvironment,
        config: ClientConfig,
        caller: Caller,
        *,
        patient: bool = True,
    ) -> None:
        """Without ``patient`` a cluster that refuses the first connection is an error at once."""
        self._patient = patient
        self._warnings = RepeatedWarnings(environment.clock)
        self._clock = environment.clock
        self._chance = environment.chance
        self._caller = caller
        self._bootstrap = bootstrap_addresses(config.text("bootstrap.servers"))
        self._first_wait_ms = config.number("retry.backoff.ms")
        self._most_wait_ms = config.number("retry.backoff.max.ms")
        self._nodes: dict[str, Node] = {}
        self._topics: dict[str, CachedTopic] = {}
        self._read_at_ms: dict[str, int] = {}
        self._max_age_ms = config.number("metadata.max.age.ms")
        self._leaders: dict[tuple[bytes, int], Leader] = {}
        self._epochs: dict[tuple[bytes, int], int] = {}
        self._coordinators: dict[str, str] = {}
        self._good_address = ""
        self._answered = False
        self.trouble = ""
        self.cluster_id = ""
        self.controller_id = ""

    def backoff(self) -> Backoff:
        """Return a fresh back-off with this client's bounds."""
        return Backoff(self._first_wait_ms, self._most_wait_ms, self._chance)

    def topic(self, name: str) -> CachedTopic | None:
        """Return a topic as last seen, or None."""
        return self._topics.get(name)

    def fresh_ms(self, name: str) -> int | None:
        """Return ms until a topic must be read again (metadata.max.age.ms); None: not known."""
        read_at_ms = self._read_at_ms.get(name)
        if read_at_ms is None:
            return None
        return max(read_at_ms + self._max_age_ms - self._clock.now_ms(), 0)

    def known_topics(self) -> Collection[str]:
        """Return the names seen so far."""
        return self._topics.keys()

    def leader(self, topic_id: bytes, partition: int) -> Leader | None:
        """Return the leader as last seen, or None."""
        return self._leaders.get((topic_id, partition))

    def epoch(self, key: tuple[bytes, int]) -> int:
        """Return the highest leader epoch seen of a partition (topic id, number); -1: none."""
        return self._epochs.get(key, -1)

    def address(self, node_id: str) -> str | None:
        """Return ``host:port`` of a node, or None if it is not known."""
        node = self._nodes.get(node_id)
        return f"{node.host}:{node.port}" if node is not None and node.port else None

    def addresses_of_role(self, role: str) -> list[str]:
        """Return the addresses of the nodes of a role; of all nodes if none says its role."""
        nodes = [node for node in self._nodes.values() if node.port]
        mine = [node for node in nodes if role in node.role.split(",") or node.role == "all"]
        return [f"{node.host}:{node.port}" for node in mine or nodes]

    def addresses(self) -> list[str]:
        """Return every known address: the last one that answered, nodes, bootstrap servers."""
        found = [self._good_address] if self._good_address else []
        found.extend(f"{node.host}:{node.port}" for node in self._nodes.values() if node.port)
        bootstrap = list(self._bootstrap)
        self._chance.shuffle(bootstrap)
        found.extend(bootstrap)
        return list(dict.fromkeys(found))

    def learn_nodes(self, nodes: Iterable[Node]) -> None:
        """Store node addresses that came with an answer."""
        for node in nodes:
            self._nodes[node.node_id] = node

    def learn_leader(self, topic_id: bytes, partition: int, current: CurrentLeader) -> None:
        """Store the leader that came with a refusal, unless it is an older one (spec REQ-11)."""
        if current.leader_id:
            self._learn((topic_id, partition), Leader(current.leader_id, current.leader_epoch))

    async def refresh(
        self,
        names: Sequence[str] | None,
        *,
        timeout_ms: int,
        awaited: Iterable[tuple[bytes, int]] = (),
        wait_ms: int = 0,
    ) -> None:
        """Read metadata of ``names`` (None: of all topics).

        The process that is asked answers at once, or, if partitions are ``awaited`` (topic id,
        number), as soon as it knows a newer leader of one of them, at most after ``wait_ms``.

        Raises:
            ConnectionFailedError: No process answered in time.
        """
        request = admin_pb2.MetadataRequest(
            topics=None if names is None else admin_pb2.TopicNames(names=names),
            awaited=[self._awaited(*key) for key in islice(awaited, AWAITED_MAX)],
            max_wait_ms=wait_ms,
        )
        response = await self.call_any(METADATA, request, timeout_ms=timeout_ms)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        if response.nodes:
            self._nodes = {node.node_id: node for node in response.nodes}
        if names is None:
            self._topics.clear()
            self._read_at_ms.clear()
        for name in names or ():
            self._topics.pop(name, None)
            self._read_at_ms.pop(name, None)
        for topic in response.topics:
            if topic.error_code == ErrorCode.NONE:
                self._learn_topic(topic)

    def _awaited(self, topic_id: bytes, partition: int) -> admin_pb2.AwaitedLeader:
        """Ask for a newer leader than the known one, or for that one again if metadata lost it."""
        key = (topic_id, partition)
        above = self.epoch(key) - (key not in self._leaders)
        return admin_pb2.AwaitedLeader(
            topic_id=topic_id, partition=partition, above_leader_epoch=max(above, -1)
        )

    def _learn_topic(self, topic: admin_pb2.TopicMetadata) -> None:
        self._topics[topic.name] = CachedTopic(topic.name, topic.topic_id, len(topic.partitions))
        self._read_at_ms[topic.name] = self._clock.now_ms()
        for found in topic.partitions:
            key = (topic.topic_id, found.partition)
            if found.leader_id:
                self._learn(key, Leader(found.leader_id, found.leader_epoch))
            else:
                self._leaders.pop(key, None)

    def _learn(self, key: tuple[bytes, int], leader: Leader) -> None:
        """Store a leader, unless a later one is or was known (processes may lag)."""
        if leader.leader_epoch >= self._epochs.get(key, -1):
            self._epochs[key] = leader.leader_epoch
            self._leaders[key] = leader

    async def call_any(
        self, method: Method[Request, Response], request: Request, *, timeout_ms: int
    ) -> Response:
        """Ask one process after the other until one answers; a patient client logs why it waits.

        Raises:
            ClusterAuthorizationFailedError: No access rule allows it.
            ConnectionFailedError: None answered in time, or the request is not accepted anywhere.
        """
        deadline_ms = self._clock.now_ms() + timeout_ms
        backoff = self.backoff()
        while True:
            attempts: list[Attempt] = []
            response = await self._ask_each(method, request, deadline_ms, attempts)
            if response is not None:
                self._answered = True
                self.trouble = ""
                return response
            self._good_address = ""
            self.trouble = nobody_answered(attempts, self.addresses())
            if self._is_nowhere(attempts):
                raise ConnectionFailedError(self.trouble)
            wait_ms = backoff.next_ms()
            if self._clock.now_ms() + wait_ms >= deadline_ms:
                within = f" within {timeout_ms} ms"
                raise ConnectionFailedError(nobody_answered(attempts, self.addresses(), within))
            overdue = self._clock.now_ms() >= deadline_ms - timeout_ms + PATIENCE_MS
            if overdue and self._patient and self._warnings.is_due("nobody"):
                _log.warning("%s Trying again", self.trouble)
            await self._clock.sleep_ms(wait_ms)

    async def _ask_each(
        self,
        method: Method[Request, Response],
        request: Request,
        deadline_ms: int,
        attempts: list[Attempt],
    ) -> Response | None:
        """Return the first answer, or None; ``attempts`` gets what failed."""
        for address in self.addresses():
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                break
            try:
                response = await self._caller.call(
                    method, request, to=address, timeout_ms=min(left_ms, ATTEMPT_TIMEOUT_MS)
                )
            except CallFailedError as error:
                if error.failure is Failure.PERMISSION_DENIED:
                    raise ClusterAuthorizationFailedError(error.message) from error
                if error.failure in _NOT_ELSEWHERE:
                    raise ConnectionFailedError(
                        f"{address}: {error}", retriable=error.failure is Failure.UNIMPLEMENTED
                    ) from error
                attempts.append((address, error))
                continue
            self._good_address = address
            return response
        return None

    def _is_nowhere(self, attempts: Sequence[Attempt]) -> bool:
        """Return whether no process ever answered and the caller does not want to wait for one."""
        unreachable = bool(attempts) and all(error.unreachable for _, error in attempts)
        return unreachable and not self._patient and not self._answered

    async def coordinator(self, group_id: str, *, timeout_ms: int) -> str:
        """Return the address of a group's coordinator.

        Raises:
            ConnectionFailedError: No process answered in time.
            ServiceError: The group may not be looked up, or no coordinator was there in time.
        """
        known = self._coordinators.get(group_id)
        if known is not None:
            return known
        deadline_ms = self._clock.now_ms() + timeout_ms
        backoff = self.backoff()
        request = admin_pb2.FindCoordinatorRequest(
            key_type=admin_pb2.COORDINATOR_KEY_TYPE_GROUP, keys=[group_id]
        )
        while True:
            left_ms = max(deadline_ms - self._clock.now_ms(), 1)
            response = await self.call_any(FIND_COORDINATOR, request, timeout_ms=left_ms)
            found = response.coordinators[0]
            if found.error_code == ErrorCode.NONE and found.node.port:
                address = f"{found.node.host}:{found.node.port}"
                self._coordinators[group_id] = address
                return address
            wait_ms = backoff.next_ms()
            late = self._clock.now_ms() + wait_ms >= deadline_ms
            passing = coordinator_moved(found.error_code) or found.error_code in _ASKED_AGAIN
            if late or not passing:
                code = found.error_code or ErrorCode.COORDINATOR_NOT_AVAILABLE
                raise error_for(code, found.error_message, about=f"group {group_id}")
            await self._clock.sleep_ms(wait_ms)

    def forget_coordinator(self, group_id: str) -> None:
        """Forget it, so that the next call looks it up: it moved or does not answer."""
        self._coordinators.pop(group_id, None)


class ApiVersions:
    """Which versions of the share RPCs the cluster speaks (spec WIRE-4).

    Learned before the first share session, so before anything could be renewed.
    """

    def __init__(self, leaders: MetadataCache, clock: Clock) -> None:
        self._leaders = leaders
        self._clock = clock
        self._latest = _LATEST_VERSION

    async def learn(self) -> None:
        """Ask until the cluster answers; one that has no such method speaks the first version."""
        backoff = self._leaders.backoff()
        while True:
            try:
                return await self._ask()
            except ConnectionFailedError as error:
                cause = error.__cause__
                if isinstance(cause, CallFailedError) and cause.failure is Failure.UNIMPLEMENTED:
                    self._latest = _FIRST_VERSION
                    return None
            await self._clock.sleep_ms(backoff.next_ms())

    async def _ask(self) -> None:
        request = admin_pb2.ApiVersionsRequest(client_name="sharemesh-python")
        response = await self._leaders.call_any(
            API_VERSIONS, request, timeout_ms=ATTEMPT_TIMEOUT_MS
        )
        for each in response.methods:
            if each.method == SHARE_ACKNOWLEDGE.name:
                self._latest = each.max_version

    @property
    def knows_renew(self) -> bool:
        """Whether the cluster knows RENEW and record_limit."""
        return self._latest >= _RENEW_VERSION


def nobody_answered(attempts: Sequence[Attempt], addresses: Sequence[str], within: str = "") -> str:
    """Describe one round of failed attempts, each at an address; none: the deadline has passed."""
    by_reason: dict[str, list[str]] = {}
    for address, error in attempts:
        by_reason.setdefault(_reason(address, error), []).append(address)
    where = "; ".join(f"{', '.join(each)}: {why}" for why, each in by_reason.items())
    return (
        f"no process of the cluster answered{within} at {where or ', '.join(addresses)}; is the "
        "cluster running, and is the port right?"
    )


def _reason(address: str, error: CallFailedError) -> str:
    if error.unreachable:
        return error.unreachable
    if error.failure is Failure.DEADLINE_EXCEEDED:
        return "no answer in time"
    return error.message.replace(f" to {address}", "")
