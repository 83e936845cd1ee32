"""Explain says what the model says, after each step of a random history over the RPC."""

import asyncio
import os
import random

import pytest

from sharemesh import methods
from sharemesh.codec.decoded_records import encode_records
from sharemesh.domain.ids import TopicPartition
from sharemesh.v1 import record_log_pb2
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.share_leader.world import FOO, ack, acquired, parts, until, world

TP = TopicPartition(FOO, 0)
STEPS = 5_000
LIMIT = 3
LOCK_MS = 30_000
MEMBERS = ("m1", "m2", "m3")
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
AVAILABLE, LOCKED, ACKNOWLEDGED, ARCHIVED = "AVAILABLE", "ACQUIRED", "ACKNOWLEDGED", "ARCHIVED"


class Record:
    """What is known of one offset from answers and from the clock alone."""

    def __init__(self) -> None:
        self.state, self.holder, self.count, self.deadline_ms = AVAILABLE, "", 0, 0
        self.rejected = False

    @property
    def done(self) -> bool:
        return self.state in (ACKNOWLEDGED, ARCHIVED)

    def free(self) -> None:
        self.state = ARCHIVED if self.count >= LIMIT else AVAILABLE
        self.holder = ""


class Model:
    """A list of records: the plainest thing that can predict an explanation."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    @property
    def start(self) -> int:
        """The first offset that is not finished."""
        for offset, record in enumerate(self.records):
            if not record.done:
                return offset
        return len(self.records)

    def expire(self, now_ms: int) -> None:
        for record in self.records:
            if record.state == LOCKED and record.deadline_ms <= now_ms:
                record.free()

    def reasons(self, offset: int) -> set[str]:
        if offset >= len(self.records):
            return {"NOT_PRODUCED"}
        record = self.records[offset]
        if record.state == LOCKED:
            return {"LOCKED"}
        if record.done:
            return {self.ending(record)}
        first = next(n for n, r in enumerate(self.records) if r.state == AVAILABLE)
        return {"NO_MEMBER_ASKS" if offset == first else "BEHIND_OTHERS"}

    @staticmethod
    def ending(record: Record) -> str:
        if record.state == ACKNOWLEDGED:
            return "ACKNOWLEDGED"
        return "REJECTED" if record.rejected else "ARCHIVED_BY_LIMIT"


class History:
    """Random steps against a leader in memory, under virtual time."""

    def __init__(self, w, rng: random.Random) -> None:
        self.w, self.rng, self.model = w, rng, Model()
        self.clients = {name: w.client(name) for name in MEMBERS}
        self.caller = w.caller()

    async def begin(self) -> None:
        await self.w.configure("g", auto_offset_reset="earliest", delivery_count_limit=LIMIT)
        await self.w.lead(TP)
        for client in self.clients.values():
            await client.hold()
            await client.join(TP)
        await until(lambda: self.w.runner(TP) is not None)

    async def step(self) -> str:
        steps = {
            self.produce: 2,
            self.fetch: 5,
            self.settle: 7,
            self.renew: 1,
            self.wait: 2,
        }
        chosen = self.rng.choices(list(steps), list(steps.values()))[0]
        await chosen()
        return chosen.__name__

    async def produce(self) -> None:
        if len(self.model.records) - self.model.start > 150:
            return
        count = self.rng.randint(1, 8)
        values = [DecodedRecord(value=b"v") for _ in range(count)]
        records = encode_records(values, default_timestamp_ms=self.w.clock.wall_ms())
        each = record_log_pb2.ProducePartition(topic_id=FOO, partition=0, records=records)
        request = record_log_pb2.ProduceRequest(partitions=[each])
        response = await self.caller.call(methods.PRODUCE, request, to=self.w.address)
        assert response.partitions[0].error_code == 0, response
        self.model.records += [Record() for _ in range(count)]

    async def fetch(self) -> None:
        name = self.rng.choice(MEMBERS)
        count = self.rng.randint(1, 12)
        response = await self.clients[name].fetch(max_records=count, batch_size=count)
        assert response.error_code == 0, response
        for first, last, deliveries in acquired(response, TP):
            for offset in range(first, last + 1):
                record = self.model.records[offset]
                assert record.state == AVAILABLE, offset
                record.count += 1
                assert deliveries == record.count, offset
                record.state, record.holder = LOCKED, name
                record.deadline_ms = self.w.clock.now_ms() + LOCK_MS

    def held(self) -> tuple[str, list[int]]:
        name = self.rng.choice(MEMBERS)
        return name, [
            offset
            for offset, record in enumerate(self.model.records)
            if record.state == LOCKED and record.holder == name
        ]

    async def settle(self) -> None:
        name, held = self.held()
        if not held:
            return
        begin = self.rng.randrange(len(held))
        chosen = held[begin : begin + self.rng.randint(1, 10)]
        kinds = [self.rng.choice((ACCEPT, ACCEPT, RELEASE, REJECT)) for _ in chosen]
        batches = [
            ack(TP, offset, offset, kind) for offset, kind in zip(chosen, kinds, strict=True)
        ]
        response = await self.clients[name].acknowledge(*batches)
        assert parts(response)[TP].error_code == 0, response
        for offset, kind in zip(chosen, kinds, strict=True):
            record = self.model.records[offset]
            if kind == RELEASE:
                record.free()
            else:
                record.state = ACKNOWLEDGED if kind == ACCEPT else ARCHIVED
                record.rejected = kind == REJECT
                record.holder = ""

    async def renew(self) -> None:
        name, held = self.held()
        if not held:
            return
        offset = self.rng.choice(held)
        response = await self.clients[name].acknowledge(
            ack(TP, offset, offset, RENEW), version=2, is_renew_ack=True
        )
        assert parts(response)[TP].error_code == 0, response
        self.model.records[offset].deadline_ms = self.w.clock.now_ms() + LOCK_MS

    async def wait(self) -> None:
        await self.w.clock.advance(self.rng.choice((1, 500, 7_000, 15_000)))
        self.model.expire(self.w.clock.now_ms())
        runner = self.w.runner(TP)
        for _ in range(200):
            if not runner.machine.pending_write_count:
                break
            await asyncio.sleep(0)

    async def explained(self, offset: int) -> pb.ExplainResponse:
        request = pb.ExplainRequest(group_id="g", topic_name="foo", partition=0, offset=offset)
        return await self.caller.call(methods.EXPLAIN, request, to=self.w.address)

    async def check(self) -> None:
        size, start = len(self.model.records), self.model.start
        asked = {self.rng.choice((start, size)), self.rng.randint(start, size + 1)}
        asked.add(self.rng.randrange(max(1, size)))
        for offset in asked:
            said = await self.explained(offset)
            told = f"offset {offset}: {said}"
            assert said.error_code == 0, told
            assert said.high_watermark == size, told
            assert {said.reason} <= self.model.reasons(offset), told
            assert said.explanation, told
            if offset >= size:
                continue
            record = self.model.records[offset]
            if record.done:
                ended = said.events[-1]
                assert (ended.delivery_state, ended.delivery_count) == (
                    record.state,
                    record.count,
                ), told
            if offset < start:
                continue
            if said.delivery_state:
                assert said.delivery_state == record.state, told
                assert said.delivery_count == record.count, told
            else:  # not in flight: never delivered to anybody
                assert (record.state, record.count) == (AVAILABLE, 0), told
            assert said.member_id == record.holder, told
            left = record.deadline_ms - self.w.clock.now_ms() if record.state == LOCKED else 0
            assert said.lock_remaining_ms == left, told


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_explain_agrees_with_the_model_in_each_step():
    seed = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
    print(f"SEED={seed}")
    async with world() as w:
        history = History(w, random.Random(seed))
        await history.begin()
        done = set()
        for number in range(STEPS):
            done.add(await history.step())
            try:
                await history.check()
            except AssertionError as error:
                raise AssertionError(f"SEED={seed}, step {number}: {error}") from error
        assert len(done) == 5
