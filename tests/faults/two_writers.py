"""two_writers: the owner of all three logs is stopped, loses its lease by hand, and comes back."""

import asyncio
import random
import signal
import time
from dataclasses import dataclass, field

from sharemesh import methods
from sharemesh.client import connect
from sharemesh.client.errors import SharemeshError
from sharemesh.ports.network import CallFailedError
from sharemesh.v1 import group_coordinator_pb2 as group_pb
from sharemesh.v1 import share_coordinator_pb2 as state_pb
from sharemesh_spark.generation.source import shard_records
from tests.faults.folds import unequal_folds
from tests.faults.node import STATE_SHARDS, Place
from tests.faults.records import OK, RawProducer, check_topic, end_offset, on_disk
from tests.faults.trials import Outcome

PARTITIONS = 4
STATE_GROUP = "stated"
GROUP = "joined"
LATE_MEMBER = "late-member-"
LATE_START = 1_000_000
"""State writes that reach the old owner after its stop carry start offsets from here on."""
TIMEOUT_MS = 20_000


@dataclass(slots=True)
class Shards:
    """State writes and joins, with what was confirmed."""

    place: Place
    states: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    members: list[str] = field(default_factory=list)
    tried: int = 0

    async def initialize(self, address: str) -> None:
        items = [
            state_pb.InitializePartitionState(partition=p, state_epoch=1, start_offset=0)
            for p in range(PARTITIONS)
        ]
        topic = state_pb.InitializeTopicState(topic_id=self.place.topics["t"], partitions=items)
        request = state_pb.InitializeShareGroupStateRequest(group_id=STATE_GROUP, topics=[topic])
        async with asyncio.timeout(30):
            while True:  # a node is ready before it has won its shards
                response = await self.place.caller.call(
                    methods.INITIALIZE_SHARE_GROUP_STATE, request, to=address
                )
                if all(each.error_code == OK for each in response.results[0].partitions):
                    return
                await asyncio.sleep(0.02)

    async def write(self, address: str, partition: int, start: int) -> bool:
        """Write a start offset; return whether that was confirmed."""
        item = state_pb.WritePartitionState(
            partition=partition, state_epoch=1, leader_epoch=0, start_offset=start
        )
        topic = state_pb.WriteTopicState(topic_id=self.place.topics["t"], partitions=[item])
        request = state_pb.WriteShareGroupStateRequest(group_id=STATE_GROUP, topics=[topic])
        try:
            response = await self.place.caller.call(
                methods.WRITE_SHARE_GROUP_STATE, request, to=address, timeout_ms=TIMEOUT_MS
            )
        except CallFailedError:
            return False
        return response.results[0].partitions[0].error_code == OK

    async def join(self, address: str, member: str) -> bool:
        """Join the group; return whether that was confirmed."""
        request = group_pb.ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member,
            member_epoch=0,
            subscribed_topic_names=group_pb.SubscribedTopicNames(names=["t"]),
        )
        try:
            response = await self.place.caller.call(
                methods.SHARE_GROUP_HEARTBEAT, request, to=address, timeout_ms=TIMEOUT_MS
            )
        except CallFailedError:
            return False
        return response.error_code == OK

    async def keep_writing(self, address: str, partition: int) -> None:
        for start in range(1, LATE_START):
            if not await self.write(address, partition, start):
                return
            # An answer that the stop held back may come after the new owner's greater offset.
            self.states[partition] = max(self.states[partition], start)

    async def keep_joining(self, address: str) -> None:
        while True:
            self.tried += 1
            member = f"member-{self.tried}"
            if not await self.join(address, member):
                return
            self.members.append(member)

    async def served_states(self, address: str) -> dict[int, int]:
        """Return the start offset of each partition as the coordinator serves it."""
        items = [state_pb.ReadPartitionState(partition=p) for p in range(PARTITIONS)]
        topic = state_pb.ReadTopicState(topic_id=self.place.topics["t"], partitions=items)
        request = state_pb.ReadShareGroupStateRequest(group_id=STATE_GROUP, topics=[topic])
        response = await self.place.caller.call(methods.READ_SHARE_GROUP_STATE, request, to=address)
        found = response.results[0].partitions
        assert all(each.error_code == OK for each in found), found
        return {each.partition: each.start_offset for each in found}

    async def served_members(self) -> set[str]:
        async with connect(self.place.bootstrap).async_admin() as admin:
            described = (await admin.describe_groups([GROUP]))[GROUP]
            if isinstance(described, SharemeshError):
                raise described
            return {each.member_id for each in described.members}


async def two_writers(number: int, seed: int) -> Outcome:
    """The old owner confirms nothing more, and its bytes are outside the logs."""
    rng = random.Random(seed)
    async with Place() as place:
        old = await place.node("a")
        await place.create_topic("t", PARTITIONS)
        producer = RawProducer(place, "t", rng)
        shards = Shards(place)
        await shards.initialize(old.address)
        await asyncio.gather(*(producer.retry(old.address, p) for p in range(PARTITIONS)))
        running = [asyncio.ensure_future(shards.keep_joining(old.address))]
        for p in range(PARTITIONS):
            running.append(asyncio.ensure_future(producer.run(old.address, p)))
            running.append(asyncio.ensure_future(shards.keep_writing(old.address, p)))
        await asyncio.sleep(rng.uniform(0.1, 0.5))
        old.send(signal.SIGSTOP)
        late = await _sent_late(old.address, producer, shards)
        new = await place.node("b")  # only now: else it would be given a part of the work before
        began = time.monotonic()
        await old.revoke()
        epochs = await _taken_over(place, new.address, producer, shards)
        recovery_ms = (time.monotonic() - began) * 1_000
        before = _on_disk(place)
        old.send(signal.SIGCONT)
        await asyncio.gather(*running)
        answers = await asyncio.gather(*late)
        wrong = [
            f"the old owner confirmed {what} that came after its stop" for what in answers if what
        ]
        wrong += await _judge(place, new.address, producer, shards)
        if _on_disk(place) != before:
            wrong.append("the record logs changed although only the old owner was asked")
        for p, epoch in epochs.items():
            if (await end_offset(place, new.address, "t", p))[1] != epoch:
                wrong.append(f"t/{p}: the new owner lost epoch {epoch}")
    states, joins = sum(shards.states.values()), len(shards.members)
    notes = f"{len(producer.confirmed)} batches, {states} state writes, {joins} joins confirmed"
    return Outcome(tuple(wrong), (recovery_ms,), notes)


async def _sent_late(
    address: str, producer: RawProducer, shards: Shards
) -> "list[asyncio.Future[str]]":
    """Send to the stopped owner; each future tells what was confirmed, "" if nothing was."""

    async def records(partition: int) -> str:
        batch = await producer.send(address, partition)
        return f"records {batch.values[0]!r}" if batch.error == OK else ""

    async def state(partition: int) -> str:
        done = await shards.write(address, partition, LATE_START)
        return f"a state write of partition {partition}" if done else ""

    async def member(number: int) -> str:
        return "a join" if await shards.join(address, f"{LATE_MEMBER}{number}") else ""

    late: list[asyncio.Future[str]] = [asyncio.ensure_future(kind(n)) for n in range(PARTITIONS)
            for kind in (records, state, member)]  # fmt: skip
    await asyncio.sleep(0.05)  # so that they lie in its socket
    return late


async def _taken_over(
    place: Place, address: str, producer: RawProducer, shards: Shards
) -> dict[int, int]:
    """Wait until the new owner confirms on all logs; return its leader epochs."""
    await asyncio.gather(*(producer.retry(address, p) for p in range(PARTITIONS)))
    async with asyncio.timeout(30):
        for p in range(PARTITIONS):
            start = shards.states[p] + 2  # the write that was on its way may be there
            while not await shards.write(address, p, start):
                await asyncio.sleep(0.02)
            shards.states[p] = start
        while not await shards.join(address, "new-member"):
            await asyncio.sleep(0.02)
    shards.members.append("new-member")
    return {p: (await end_offset(place, address, "t", p))[1] for p in range(PARTITIONS)}


async def _judge(place: Place, address: str, producer: RawProducer, shards: Shards) -> list[str]:
    """Compare what is served and what lies in the logs with what was confirmed."""
    wrong = check_topic(place, producer, PARTITIONS)
    served = await shards.served_states(address)
    if served != shards.states:
        wrong.append(f"start offsets {served} are served, {shards.states} were confirmed")
    members = await shards.served_members()
    if any(member.startswith(LATE_MEMBER) for member in members):
        wrong.append("a member is in the group that joined at the old owner after its stop")
    if not members >= set(shards.members):
        wrong.append(f"{len(set(shards.members) - members)} confirmed joins are lost")
    for kind in ("state", "group"):
        for directory in (place.data / kind).iterdir():
            for value in on_disk(directory).values():
                if LATE_MEMBER.encode() in value:
                    wrong.append(f"the {kind} log holds a late join of the old owner")
    for shard in range(STATE_SHARDS):
        for _, _, record in shard_records(place.data, shard):
            if getattr(record, "start_offset", 0) >= LATE_START:
                wrong.append("the state log holds a late write of the old owner")
    return wrong + unequal_folds(place.data)


def _on_disk(place: Place) -> list[dict[int, bytes]]:
    return [on_disk(place.partition_directory("t", p)) for p in range(PARTITIONS)]
