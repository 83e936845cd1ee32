"""BND-33: what answers take that nobody reads is bounded, by letting no more of them begin."""

import asyncio
import contextlib

import grpc
import pytest

from sharemesh.methods import METADATA, PRODUCE
from sharemesh.ports.network import LEAST_READ_BYTES
from sharemesh.rpc.limits import ServerLimits, server_limits
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.tls import Principals
from sharemesh.rpc.unsent_answers import ANSWER_FACTOR, UnsentAnswers
from sharemesh.v1 import admin_pb2, carried_calls_pb2, record_log_pb2

ALICE, EVE, NODE = "User:alice", "User:eve", "Node:n"
MIB = 1 << 20
ASKED = 2 * MIB // ANSWER_FACTOR  # bytes of a request that may be answered with 2 MiB
ROOM = 8 * MIB
LIMITS = ServerLimits(answer_bytes=2 * ROOM, principal_answer_bytes=ROOM)


@pytest.fixture
def answers():
    return UnsentAnswers(LIMITS, (NODE,))


async def begun(answers, principal=EVE, asked=ASKED, method=METADATA):
    async with asyncio.timeout(20):
        return await answers.begin(principal, method.name, asked)


def waiting(answers, principal=EVE, asked=ASKED):
    return asyncio.ensure_future(answers.begin(principal, METADATA.name, asked))


async def filled(answers, principal=EVE):
    return [await begun(answers, principal) for _ in range(4)]


async def test_bnd_33_a_call_begins_once_answers_of_its_principal_have_left(answers):
    unread = await filled(answers)
    later = [waiting(answers) for _ in range(2)]
    await asyncio.sleep(0)
    assert [each.done() for each in later] == [False, False]
    unread[0].made(2 * MIB)  # it has not left
    unread[1].ended()
    first = await asyncio.wait_for(later[0], 20)
    assert not later[1].done()
    first.made(10)
    await asyncio.wait_for(later[1], 20)
    assert answers.total == answers.of(EVE) == ROOM


async def test_bnd_33_others_and_the_cluster_itself_do_not_wait(answers):
    await filled(answers)
    stuck = waiting(answers)
    assert (await begun(answers, ALICE)).size == 2 * MIB
    assert (await begun(answers, NODE)).size == 0
    for _ in range(3):
        await begun(answers, "User:bob")
    assert answers.total == 2 * ROOM
    await begun(answers, "User:carol")  # all there is is taken; but she has nothing
    assert not stuck.done()
    stuck.cancel()


async def test_bnd_33_small_requests_pass_large_ones_and_have_twice_the_room(answers):
    unread = await filled(answers)
    stuck = waiting(answers)
    small = [await begun(answers, asked=10) for _ in range(2)]
    for each in small:
        each.made(ROOM // 2)
    too_many = waiting(answers, asked=10)
    await asyncio.sleep(0)
    assert not too_many.done()
    small[0].ended()
    await asyncio.wait_for(too_many, 20)
    assert not stuck.done()
    for each in [*unread, *small]:
        each.ended()
    (await asyncio.wait_for(stuck, 20)).ended()
    assert answers.total == 0


async def test_bnd_33_who_waits_no_more_keeps_nobody_waiting(answers):
    unread = await filled(answers)
    given_up, next_one = waiting(answers, asked=4 * ASKED), waiting(answers)
    await asyncio.sleep(0)
    unread[0].ended()
    await asyncio.sleep(0)
    assert not next_one.done()  # in order: the larger one came first
    given_up.cancel()
    await asyncio.wait_for(next_one, 20)
    assert answers.of(EVE) == ROOM


async def test_bnd_33_a_call_that_is_taken_back_as_it_begins_leaves_nothing(answers):
    unread = await filled(answers)
    late = waiting(answers)
    await asyncio.sleep(0)
    unread[0].ended()
    late.cancel()
    await asyncio.wait([late])
    for each in unread:
        each.ended()
    assert answers.total == 0


async def test_bnd_33_a_produce_counts_as_much_as_it_sends(answers):
    held = await begun(answers, asked=3 * MIB, method=PRODUCE)
    assert held.size == 3 * MIB


async def test_bnd_33_records_are_read_as_far_as_there_is_room(answers):
    one, two = await begun(answers, asked=30), await begun(answers, asked=30)
    assert one.take(ROOM - 100) == ROOM - 100
    assert two.take(MIB) == 0
    two_waits = asyncio.ensure_future(two.until_room(20_000))
    await asyncio.sleep(0)
    assert not two_waits.done()
    one.give_back(MIB)
    await asyncio.wait_for(two_waits, 20)
    assert two.take(ROOM) == MIB + 100


async def test_bnd_33_who_has_nothing_may_read_a_little_whatever_others_hold(answers):
    for principal in (EVE, "User:bob"):
        (await begun(answers, principal, 30)).take(ROOM)
    assert (await begun(answers, ALICE, 30)).take(MIB) == LEAST_READ_BYTES
    assert (await begun(answers, NODE, 30)).take(MIB) == MIB


async def test_bnd_33_a_wait_for_room_ends_in_its_time(answers):
    one, two = await begun(answers, asked=30), await begun(answers, asked=30)
    one.take(ROOM)
    await two.until_room(1)
    assert two.take(MIB) == 0
    one.ended()
    assert answers.total == 0


def test_bnd_33_callers_without_names_are_one_principal():
    limits = server_limits(10, callers_have_names=False)
    assert limits.principal_answer_bytes == limits.answer_bytes


# ---- over gRPC ----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def serving(begun_calls, room=4 * MIB):
    async def metadata(request, context):
        begun_calls.append(context.principal)
        return admin_pb2.MetadataResponse(cluster_id="x" * MIB)

    async def produce(request, context):
        begun_calls.append(context.principal)
        response = record_log_pb2.ProduceResponse()
        response.partitions.add(error_message="x" * 20_000)
        return response

    limits = ServerLimits(answer_bytes=2 * room, principal_answer_bytes=room)
    server = GrpcServer(limits=limits, principals=Principals(header="x-user"))
    server.offer(METADATA, metadata)
    server.offer(PRODUCE, produce)
    port = await server.start("127.0.0.1", 0)
    # Without these a caller takes megabytes of answers that it does not read.
    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
    alone = ("grpc.use_local_subchannel_pool", 1)
    try:
        yield lambda: grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[*options, alone])
    finally:
        await server.stop(0)


def invoked(channel, method, who):
    call = channel.stream_stream(f"/sharemesh.v1.{method.name}")
    return call(metadata=(("x-user", who),), timeout=60)


async def test_bnd_33_answers_that_nobody_reads_hold_back_their_own_principal_alone():
    begun_calls = []
    async with serving(begun_calls) as connect, connect() as channel, connect() as of_alice:
        unread = [invoked(channel, METADATA, "eve") for _ in range(60)]
        for call in unread:
            await call.write(admin_pb2.MetadataRequest().SerializeToString())
            await call.done_writing()
        read = invoked(of_alice, PRODUCE, "alice")
        await read.write(b"")
        assert len(await read.read()) > 20_000
        assert begun_calls.count("User:eve") < len(unread)
        # Read at last, and all at once: which of them the server began first is not said.
        answers = await asyncio.gather(*(call.read() for call in unread))
        assert all(len(answer) > MIB for answer in answers)
        assert begun_calls.count("User:eve") == len(unread)


async def test_bnd_33_a_carried_call_counts_until_its_answer_has_left():
    begun_calls = []
    async with serving(begun_calls, room=100_000) as connect, connect() as channel:
        stream = channel.stream_stream("/sharemesh.v1.Calls/Carry")(
            metadata=(("x-user", "eve"),), timeout=60
        )
        for number in range(1, 101):
            call = carried_calls_pb2.CarriedCall(number=number, method=PRODUCE.name)
            call.request = bytes([0x7A, 200, 16]) + bytes(2_120)
            message = carried_calls_pb2.CarriedCalls(calls=[call])
            await stream.write(message.SerializeToString())
            answer = carried_calls_pb2.CarriedAnswers.FromString(await stream.read())
            assert len(answer.answers[0].response) > 20_000
        assert len(begun_calls) == 100
