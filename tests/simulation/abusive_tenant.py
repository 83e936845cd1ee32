"""A client of another tenant that obeys nothing: it floods, hoards, and never acknowledges.

It has the rights on a topic and on groups of its own, and tries the others' all the same. It speaks
the protocol without a client library, several calls at a time, whatever throttle time it is told.
"""

import asyncio
from collections.abc import Coroutine
from random import Random

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.cluster import Role
from sharemesh.ports.network import Caller, CallFailedError
from sharemesh.v1 import group_coordinator_pb2 as group_pb
from sharemesh.v1 import record_log_pb2 as log_pb
from sharemesh.v1 import share_leader_pb2 as leader_pb
from sharemesh.v1.common_pb2 import TopicPartitions
from tests.simulation.loop import Process
from tests.simulation.world import Node, World

NAME = "hog"
TOPIC_OF_ITS_OWN = "junk"
GROUPS_OF_ITS_OWN = tuple(f"hoard-{number}" for number in range(6))
PARTITIONS = 2
FLOODS, HOARDS = 3, 3
GAP_S = (0.02, 0.3)
RECORD_BYTES = (10, 500, 3_000)
LISTENS_S = (0.5, 6.0)
CREDIT = 1_000


class AbusiveTenant:
    """Goes on until the run ends; what it is answered is counted, and judged by others."""

    def __init__(self, world: World, group_of_others: str) -> None:
        self._world = world
        self._counters = world.event_log.counters
        self._rng = Random(world.rng.getrandbits(64))
        self._group_of_others = group_of_others
        self._topic_id = b""
        self.topic_id_of_others = b""
        self.process, self._environment = world.new_client(NAME)

    def start(self, topic_id: bytes) -> Process:
        """Begin, with a topic of its own."""
        self._topic_id = topic_id
        caller = self._environment.open_caller()
        for work in (
            *(self._flood(caller) for _ in range(FLOODS)),
            *(self._hoard(caller) for _ in range(HOARDS)),
            self._fetch(caller),
            self._join(caller),
        ):
            self.process.start(self._again_and_again(work))
        return self.process

    async def _again_and_again(self, work: Coroutine[None, None, None]) -> None:
        await work

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.uniform(*GAP_S))

    def _node(self, role: Role) -> Node:
        return self._rng.choice(self._world.role_nodes(role))

    def _topic(self) -> bytes:
        """Return its own topic, or now and then that of the others."""
        return self._topic_id if self._rng.random() < 0.9 else self.topic_id_of_others

    def _failed(self) -> None:
        self._counters["calls of the abusive tenant that failed"] += 1

    # ---- what it does ---------------------------------------------------------------------------

    async def _flood(self, caller: Caller) -> None:
        """Produce; a refusal is answered with the next request at once."""
        while True:
            await self._pause()
            topic_id = self._topic()
            request = log_pb.ProduceRequest(timeout_ms=5_000)
            entry = request.partitions.add(
                topic_id=topic_id, partition=self._rng.randrange(PARTITIONS)
            )
            entry.decoded_records.add(value=bytes(self._rng.choice(RECORD_BYTES)))
            address = self._node(Role.SHARE_LEADER).address
            try:
                answer = await caller.call(methods.PRODUCE, request, to=address, timeout_ms=10_000)
            except CallFailedError:
                self._failed()
                continue
            [result] = answer.partitions
            self._counters[f"floods answered by {result.error_code}"] += 1
            if topic_id != self._topic_id and not result.error_code:
                self._say("produced to a topic of others")

    async def _hoard(self, caller: Caller) -> None:
        """Open one stream after the other in one group after the other, and keep what comes."""
        while True:
            await self._pause()
            is_own = self._rng.random() < 0.9
            group = self._rng.choice(GROUPS_OF_ITS_OWN) if is_own else self._group_of_others
            try:
                stream = await caller.stream(
                    methods.CONSUME, to=self._node(Role.SHARE_LEADER).address
                )
            except CallFailedError:
                self._failed()
                continue
            try:
                async with asyncio.timeout(self._rng.uniform(*LISTENS_S)):
                    await stream.send(self._first(group))
                    async for message in stream:
                        self._heard(message, is_own=is_own)
            except CallFailedError:
                self._failed()
            except TimeoutError:
                self._counters["streams that the abusive tenant left"] += 1
            await stream.close()

    def _first(self, group: str) -> leader_pb.ConsumeRequest:
        start = leader_pb.ConsumeStart(
            group_id=group, member_id=self._environment.new_id()[-36:], max_records=100
        )
        both = [TopicPartitions(topic_id=self._topic_id, partitions=range(PARTITIONS))]
        return leader_pb.ConsumeRequest(start=start, add=both, credit_records=CREDIT)

    def _heard(self, message: leader_pb.ConsumeResponse, *, is_own: bool) -> None:
        if message.error_code:
            self._counters[f"streams of the abusive tenant ended by {message.error_code}"] += 1
        got = sum(len(p.acquired_records) for t in message.responses for p in t.partitions)
        self._counters["batches hoarded"] += got
        if got and not is_own:
            self._say("got records in a group of others")

    async def _fetch(self, caller: Caller) -> None:
        """Open sessions by unary calls, one after the other, and never acknowledge."""
        while True:
            await self._pause()
            entry = leader_pb.AcknowledgeTopic(topic_id=self._topic_id)
            for number in range(PARTITIONS):
                entry.partitions.add(partition=number)
            request = leader_pb.ShareFetchRequest(
                group_id=self._rng.choice(GROUPS_OF_ITS_OWN),
                member_id=self._environment.new_id()[-36:],
                max_wait_ms=self._rng.choice((0, 500)),
                min_bytes=1,
                max_bytes=1 << 20,
                max_records=100,
                batch_size=100,
                topics=[entry],
            )
            address = self._node(Role.SHARE_LEADER).address
            try:
                answer = await caller.call(
                    methods.SHARE_FETCH, request, to=address, timeout_ms=10_000
                )
            except CallFailedError:
                self._failed()
                continue
            self._counters[f"fetches of the abusive tenant answered by {answer.error_code}"] += 1

    async def _join(self, caller: Caller) -> None:
        """Make groups, and join that of the others."""
        while True:
            await self._pause()
            is_own = self._rng.random() < 0.9
            group = self._rng.choice(GROUPS_OF_ITS_OWN) if is_own else self._group_of_others
            request = group_pb.ShareGroupHeartbeatRequest(
                group_id=group, member_id=self._environment.new_id()[-36:], member_epoch=0
            )
            request.subscribed_topic_names.names.append(TOPIC_OF_ITS_OWN)
            address = self._node(Role.GROUP_COORDINATOR).address
            try:
                answer = await caller.call(
                    methods.SHARE_GROUP_HEARTBEAT, request, to=address, timeout_ms=10_000
                )
            except CallFailedError:
                self._failed()
                continue
            self._counters[f"joins of the abusive tenant answered by {answer.error_code}"] += 1
            if not is_own and answer.error_code == ErrorCode.NONE:
                self._say("joined a group of others")

    def _say(self, what: str) -> None:
        self._world.event_log.violation(self._world.now_s, f"the abusive tenant {what}")
