"""A leader that drains, and members that hold records meanwhile."""

import asyncio

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.test_consume import P0, deliveries

DRAIN_MS = 5_000
ACQUIRED = DeliveryState.ACQUIRED
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
STATE = int(ErrorCode.INVALID_RECORD_STATE)


async def held(w, *, follows=True, member="m1", records=5):
    """Return the epoch, a client and its stream, which holds all records."""
    epoch = await w.lead(P0)
    client = w.client(member)
    stream = await client.consume(P0, follows_hand_over=follows)
    await w.produce(P0, records)
    await deliveries(stream, records)
    await w.assign("leader-2", P0)
    return epoch, client, stream


async def echoed(stream):
    """Send the number of the next message with one back; return all messages up to it."""
    messages = []
    while not messages or not messages[-1].echo_id:
        messages.append(await anext(stream))
    await stream.send(pb.ConsumeRequest(echo_id=messages[-1].echo_id))
    return messages


async def told(stream):
    """Return the first message that says what was handed over."""
    while True:
        message = await anext(stream)
        if message.handed_over:
            return [(each.partition, each.leader_epoch) for each in message.handed_over]


def draining(w, drain_ms=DRAIN_MS):
    return asyncio.create_task(w.service.stop_partition(P0, drain_ms=drain_ms))
