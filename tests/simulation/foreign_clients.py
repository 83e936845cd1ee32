"""A client of another make: it has given credit, takes what comes, and hands nothing back.

It speaks the protocol and nothing else: one Consume stream with each leader, without a word while
its application hangs. So it is the leaders' part to send it nothing then (docs/spec HBK-11).
"""

import asyncio
import contextlib
import itertools
from collections import deque
from typing import NamedTuple

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.methods import CONSUME
from sharemesh.ports.cluster import Role
from sharemesh.ports.network import CallFailedError, Stream
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions
from tests.simulation.clients import ConsumerApplication
from tests.simulation.journal import Client, Handed

Wire = Stream[pb.ConsumeRequest, pb.ConsumeResponse]
CREDIT = 200
AGAIN_S = 1.0
WORKS_S = (0.0, 0.05, 0.5)
ADD_AGAIN_S = 3.0


class _Record(NamedTuple):
    stream: Wire
    partition: int
    epoch: int
    offset: int
    count: int  # type: ignore[assignment]  # in the place of tuple.count, which nobody calls
    value: bytes


class ForeignConsumer(ConsumerApplication):
    """Consumes all partitions of one topic, wherever they are led."""

    async def _run(self, group: str, topics: list[str]) -> None:
        self._group, self._topic = group, topics[0]
        self._member_id = f"{self.name}-foreign"[-36:]
        self.journal.members[self._member_id] = Client(self.process, hands_back=False)
        self._buffer: deque[_Record] = deque()
        self._asked: dict[int, _Record] = {}
        self._newest: dict[tuple[int, int], tuple[int, int]] = {}
        self._numbers = itertools.count(1)
        self._came = asyncio.Event()
        self._streams: dict[str, Wire] = {}
        self._added_s = 0.0
        caller = self._environment.open_caller()
        tasks = [
            asyncio.create_task(self._consume(caller, node.address))
            for node in self.world.role_nodes(Role.SHARE_LEADER)
        ]
        while not self.pace.stopping:
            await self._work()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await caller.close()
        self.done = True

    # ---- the application ------------------------------------------------------------------------

    async def _work(self) -> None:
        """Accept one record after the other; speak only of what was worked on."""
        await self._add_again()
        if not self._buffer:
            self._came.clear()
            await asyncio.wait([asyncio.ensure_future(self._came.wait())], timeout=1)
            return
        record = self._buffer.popleft()
        if self._is_old(record):
            return
        name = f"{self._topic}/{record.partition}"
        handed = Handed(self._member_id, name, record.epoch, record.offset, record.count)
        self.journal.handed_out(handed)
        self.journal.delivered_values[name, record.offset].add(record.value)
        self.journal.delivered(self.name, handed)
        await self._while_stalled()
        await asyncio.sleep(self._rng.choice(WORKS_S))
        if self._is_old(record):
            return
        number = next(self._numbers)
        self._asked[number] = record
        partition = pb.AcknowledgePartition(partition=record.partition, leader_epoch=record.epoch)
        partition.acknowledgement_batches.add(
            first_offset=record.offset,
            last_offset=record.offset,
            acknowledge_types=[AcknowledgeType.ACCEPT],
        )
        topic = pb.AcknowledgeTopic(topic_id=self._topic_id, partitions=[partition])
        said = pb.ConsumeAcknowledge(acknowledge_id=number, topics=[topic])
        try:
            await record.stream.send(pb.ConsumeRequest(acknowledgements=[said], credit_records=1))
        except CallFailedError:
            del self._asked[number]

    def _is_old(self, record: _Record) -> bool:
        """Return whether it came again since, or is finished."""
        newest = self._newest.get((record.partition, record.offset))
        return newest != (record.epoch, record.count)

    async def _add_again(self) -> None:
        """Ask each leader for what it may have refused before: partitions move."""
        if self.world.now_s - self._added_s < ADD_AGAIN_S:
            return
        self._added_s = self.world.now_s
        for stream in list(self._streams.values()):
            with contextlib.suppress(CallFailedError):
                await stream.send(pb.ConsumeRequest(add=self._all()))

    # ---- its client -----------------------------------------------------------------------------

    @property
    def _topic_id(self) -> bytes:
        return next(key for key, name in self.world.topic_names.items() if name == self._topic)

    async def _consume(self, caller, address: str) -> None:
        while True:
            try:
                stream = await caller.stream(CONSUME, to=address)
                await stream.send(self._start())
                self._streams[address] = stream
                async for message in stream:
                    self._take(stream, message)
            except CallFailedError:
                self.world.event_log.counters["client troubles"] += 1
            await asyncio.sleep(AGAIN_S)

    def _start(self) -> pb.ConsumeRequest:
        start = pb.ConsumeStart(
            group_id=self._group,
            member_id=self._member_id,
            max_records=20,
            record_format=pb.RECORD_FORMAT_DECODED,
        )
        return pb.ConsumeRequest(start=start, add=self._all(), credit_records=CREDIT)

    def _all(self) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=self._topic_id, partitions=[0, 1, 2])]

    def _take(self, stream: Wire, message: pb.ConsumeResponse) -> None:
        for topic in message.responses:
            for each in topic.partitions:
                values = {record.offset: record.value for record in each.decoded_records}
                for run in each.acquired_records:
                    for offset in range(run.first_offset, run.last_offset + 1):
                        record = _Record(
                            stream,
                            each.partition,
                            each.leader_epoch,
                            offset,
                            run.delivery_count,
                            values[offset],
                        )
                        self._buffer.append(record)
                        self._newest[record.partition, offset] = (record.epoch, record.count)
        for answer in message.acknowledged:
            asked = self._asked.pop(answer.acknowledge_id, None)
            if asked is not None:
                self._newest.pop((asked.partition, asked.offset), None)
                (result,) = (each for topic in answer.topics for each in topic.partitions)
                self.journal.acknowledged(
                    self.name,
                    f"{self._topic}/{asked.partition}",
                    "accept",
                    [asked.offset],
                    result.error_message if result.error_code else None,
                )
        self._came.set()
