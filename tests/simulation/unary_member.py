"""A member that fetches by unary calls, of one leader, whatever partitions are led there.

Some of its session's partitions are always in error: of another leader, or of no topic at all.
"""

import asyncio
from random import Random

from sharemesh import methods
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.ports.network import Caller, CallFailedError
from sharemesh.v1 import share_leader_pb2 as pb
from tests.simulation.invariants import PROGRESS
from tests.simulation.world import World

MAX_WAIT_MS = 3_000
SOON = 0.5  # of that: an answer before it must have a reason
NO_TOPIC = bytes(range(16))
TROUBLE_S = 0.5
Errors = dict[tuple[bytes, int], int]


class UnaryMember:
    """Fetches, accepts what it gets, and judges what each answer came for (invariant 14)."""

    def __init__(self, world: World, group: str, address: str, partitions: dict[str, int]) -> None:
        self._world = world
        self._group = group
        self._address = address
        self._partitions = partitions
        self._rng = Random(world.rng.getrandbits(64))
        self.process, self._environment = world.new_client(f"unary at {address}")
        self._member_id = self._environment.new_id()

    def start(self) -> None:
        """Begin, and go on until the run ends."""
        self.process.start(self._run())

    async def _run(self) -> None:
        caller = self._environment.open_caller()
        while True:
            try:
                await self._in_one_session(caller)
            except CallFailedError:
                self._world.event_log.counters["unary calls that failed"] += 1
            await asyncio.sleep(self._rng.uniform(0.1, 1) * TROUBLE_S)

    async def _in_one_session(self, caller: Caller) -> None:
        """Fetch until an answer says that the session is over."""
        epoch, known, acquired = 0, Errors(), list[pb.AcknowledgeTopic]()
        while True:
            begun_s = self._world.now_s
            response = await caller.call(
                methods.SHARE_FETCH, self._request(epoch, acquired), to=self._address
            )
            if response.error_code:
                return
            if epoch:
                self._judge(response, known, self._world.now_s - begun_s)
            epoch += 1
            known, acquired = _errors(response), _accepted(response)
            await asyncio.sleep(self._rng.uniform(0, TROUBLE_S))

    def _request(self, epoch: int, acquired: list[pb.AcknowledgeTopic]) -> pb.ShareFetchRequest:
        topics = acquired
        if epoch == 0:
            names = self._world.topic_names
            topics = [
                pb.AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[
                        pb.AcknowledgePartition(partition=number)
                        for number in range(self._partitions.get(name, 0))
                    ],
                )
                for topic_id, name in names.items()
            ]
            topics.append(
                pb.AcknowledgeTopic(
                    topic_id=NO_TOPIC, partitions=[pb.AcknowledgePartition(partition=0)]
                )
            )
        return pb.ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=20,
            batch_size=20,
            topics=topics,
        )

    def _judge(self, response: pb.ShareFetchResponse, known: Errors, took_s: float) -> None:
        """An answer comes for records, for news, at its time, or because nothing can come."""
        errors = _errors(response)
        counters = self._world.event_log.counters
        PROGRESS.judged(counters)
        has_records = any(p.acquired_records for t in response.responses for p in t.partitions)
        in_error = sum(self._partitions.values()) + 1 == len(errors)
        counters["long polls beside a partition in error"] += bool(errors) and not in_error
        is_news = errors.items() - known.items() or _cannot_read(response)
        if took_s < SOON * MAX_WAIT_MS / 1_000 and not (has_records or is_news or in_error):
            text = f"a long poll of {self.process} came back after {took_s:.3f} s with nothing new"
            self._world.event_log.violation(self._world.now_s, PROGRESS.broken(text))


def _errors(response: pb.ShareFetchResponse) -> Errors:
    return {
        (topic.topic_id, entry.partition): entry.error_code
        for topic in response.responses
        for entry in topic.partitions
        if entry.error_code
    }


def _cannot_read(response: pb.ShareFetchResponse) -> bool:
    """Whether there were records, and only reading them failed: that is told each time (DF-3)."""
    entries = (entry for topic in response.responses for entry in topic.partitions)
    return any(entry.error_message.startswith("the log cannot be read") for entry in entries)


def _accepted(response: pb.ShareFetchResponse) -> list[pb.AcknowledgeTopic]:
    """Return the acceptance of all that came: nobody asks what becomes of it."""
    return [
        pb.AcknowledgeTopic(
            topic_id=topic.topic_id,
            partitions=[
                pb.AcknowledgePartition(
                    partition=entry.partition,
                    leader_epoch=entry.leader_epoch,
                    acknowledgement_batches=[
                        pb.AcknowledgementBatch(
                            first_offset=each.first_offset,
                            last_offset=each.last_offset,
                            acknowledge_types=[AcknowledgeType.ACCEPT],
                        )
                        for each in entry.acquired_records
                    ],
                )
                for entry in topic.partitions
                if entry.acquired_records
            ],
        )
        for topic in response.responses
        if any(entry.acquired_records for entry in topic.partitions)
    ]
