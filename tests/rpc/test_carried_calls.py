"""Small calls that travel as messages of one stream end as calls of their own (spec CAR)."""

import asyncio
import contextlib
import gc
from dataclasses import replace

import grpc
import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.methods import METADATA, WRITE_SHARE_GROUP_STATE
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc import carried_calls
from sharemesh.rpc.carried_calls import CALLS_OF_A_MESSAGE, CARRIED_BYTES_MAX, CARRY
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.limits import ServerLimits
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.tls import Principals
from sharemesh.v1 import carried_calls_pb2 as pb
from sharemesh.v1 import share_coordinator_pb2

WRITE = WRITE_SHARE_GROUP_STATE
WAIT_S = 20
BOB = (("x-user", "bob"),)


def asked(group_id="g"):
    return share_coordinator_pb2.WriteShareGroupStateRequest(group_id=group_id)


class StoodClock(SystemClock):
    """Shows the time that it is set to."""

    ms = 0

    def now_ms(self):
        return self.ms


class Service:
    """Answers writes; those of group ``slow`` wait until they are let go."""

    def __init__(self):
        self.groups = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def write(self, request, context):
        self.groups.append(request.group_id)
        if request.group_id == "slow":
            self.begun.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if request.group_id == "throttled":
            raise CallFailedError(Failure.RESOURCE_EXHAUSTED, "not now", throttle_ms=1_234)
        return share_coordinator_pb2.WriteShareGroupStateResponse()


@contextlib.asynccontextmanager
async def serving(**options):
    service, server = Service(), GrpcServer(**options)
    server.offer(WRITE, service.write)
    service.server = server
    service.address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    async with asyncio.timeout(WAIT_S):
        yield service
        await server.stop(0)


@contextlib.asynccontextmanager
async def calling(service, headers=(), clock=None):
    """A caller whose calls are carried."""
    caller = GrpcCaller(clock or SystemClock(), headers=headers)
    try:
        await carried(caller, service)
        service.groups.clear()
        yield caller
    finally:
        await caller.close()


def carrier_of(caller, service):
    return caller._peer("", service.address).carriage.carrier(caller._headers)


async def carried(caller, service):
    while carrier_of(caller, service) is None:
        await caller.call(WRITE, asked("warm"), to=service.address)


@contextlib.asynccontextmanager
async def stream_of(service):
    """The stream as any client opens it, with no code of ours."""
    async with grpc.aio.insecure_channel(service.address) as channel:
        call = channel.stream_stream(
            f"/sharemesh.v1.{CARRY.name}",
            request_serializer=pb.CarriedCalls.SerializeToString,
            response_deserializer=pb.CarriedAnswers.FromString,
        )(timeout=WAIT_S)
        await call.write(pb.CarriedCalls())
        yield call


def one(number, group_id="g", method=WRITE.name):
    return pb.CarriedCall(number=number, method=method, request=asked(group_id).SerializeToString())


async def test_calls_go_by_themselves_until_there_is_a_stream():
    """CAR-1, CAR-5: nobody waits for it."""
    async with serving() as service:
        caller = GrpcCaller(SystemClock())
        for _ in range(carried_calls.CARRIED_FROM):
            await caller.call(WRITE, asked(), to=service.address)
        assert carrier_of(caller, service) is None
        await carried(caller, service)
        before = carrier_of(caller, service)
        await asyncio.gather(
            *(caller.call(WRITE, asked(f"g{n}"), to=service.address) for n in range(50))
        )
        assert service.groups[-50:] == [f"g{n}" for n in range(50)]
        assert carrier_of(caller, service) is before
        await caller.close()


async def test_a_refusal_says_when_to_come_again_on_a_stream_too():
    """CAR-1, QUO-14."""
    async with serving() as service, calling(service) as caller:
        with pytest.raises(CallFailedError, match="not now") as refused:
            await caller.call(WRITE, asked("throttled"), to=service.address)
        assert refused.value.throttle_ms == 1_234
        assert refused.value.failure is Failure.RESOURCE_EXHAUSTED


async def test_a_call_whose_stream_is_lost_is_not_made_again():
    """CAR-2."""
    async with serving() as service, calling(service) as caller:
        call = asyncio.ensure_future(caller.call(WRITE, asked("slow"), to=service.address))
        await service.begun.wait()
        await service.server.stop(0)
        with pytest.raises(CallFailedError) as lost:
            await call
        assert lost.value.failure is Failure.UNAVAILABLE
        assert service.groups == ["slow"]
        await service.cancelled.wait()


async def test_a_call_ends_in_its_time_and_its_handler_with_it():
    """CAR-3."""
    async with serving() as service, calling(service) as caller:
        with pytest.raises(CallFailedError) as late:
            await caller.call(WRITE, asked("slow"), to=service.address, timeout_ms=50)
        assert late.value.failure is Failure.DEADLINE_EXCEEDED
        await service.cancelled.wait()
        await caller.call(WRITE, asked("next"), to=service.address, timeout_ms=10_000)
        assert service.groups == ["slow", "next"]


async def test_a_caller_that_leaves_cancels_its_handler_only():
    """CAR-3."""
    async with serving() as service, calling(service) as caller:
        call = asyncio.ensure_future(caller.call(WRITE, asked("slow"), to=service.address))
        await service.begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await service.cancelled.wait()
        assert carrier_of(caller, service) is not None


async def test_a_large_request_goes_by_itself():
    """CAR-4."""
    async with serving() as service, calling(service) as caller, stream_of(service) as call:
        large = "x" * CARRIED_BYTES_MAX
        await caller.call(WRITE, asked(large), to=service.address)
        assert service.groups == [large]
        await call.write(pb.CarriedCalls(calls=[one(1, large)]))
        [answer] = (await call.read()).answers
        assert answer.status == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        assert service.groups == [large]


async def test_what_is_no_call_is_refused_by_itself():
    """CAR-1, CAR-4: the others of its stream go on."""
    async with serving() as service, stream_of(service) as call:
        garbage = pb.CarriedCall(number=2, method=WRITE.name, request=b"\xff\xff")
        unknown = one(1, method=METADATA.name)
        await call.write(pb.CarriedCalls(calls=[unknown, garbage, one(3)]))
        answers = {}
        while len(answers) < 3:
            answers |= {each.number: each.status for each in (await call.read()).answers}
        assert answers == {
            1: grpc.StatusCode.UNIMPLEMENTED.value[0],
            2: grpc.StatusCode.INVALID_ARGUMENT.value[0],
            3: 0,
        }


@pytest.mark.parametrize(
    "calls",
    [
        [one(n) for n in range(CALLS_OF_A_MESSAGE + 1)],
        [one(1, "slow"), one(1, "slow")],
    ],
)
async def test_what_no_caller_says_ends_the_stream(calls):
    """CAR-4."""
    async with serving() as service, stream_of(service) as call:
        await call.write(pb.CarriedCalls(calls=calls))
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_calls_of_a_stream_count_among_the_open_calls_of_their_principal():
    """CAR-4, BND-2: the stream is one of the two that bob may have."""
    limits = ServerLimits(max_principal_calls=2)
    told = []
    principals = Principals("s" * 32, "Node:n", "x-user")
    async with (
        serving(
            limits=limits, principals=principals, on_refused=lambda *event: told.append(event)
        ) as service,
        calling(service, BOB) as caller,
    ):
        slow = asyncio.ensure_future(caller.call(WRITE, asked("slow"), to=service.address))
        await service.begun.wait()
        with pytest.raises(CallFailedError, match="bob has 2 calls open") as refused:
            await caller.call(WRITE, asked(), to=service.address)
        assert refused.value.failure is Failure.RESOURCE_EXHAUSTED
        [(method, principal, _, status)] = told
        assert (method, principal, status) == (WRITE.name, "User:bob", "RESOURCE_EXHAUSTED")
        service.go.set()
        await slow
        await caller.call(WRITE, asked(), to=service.address)


async def test_a_server_that_knows_no_streams_of_calls_is_called_as_ever(monkeypatch):
    """CAR-5: it is asked once a minute."""
    monkeypatch.setattr("sharemesh.rpc.server.CARRY", replace(CARRY, name="Calls/Unknown"))
    clock, opened = StoodClock(), []
    carrier = carried_calls.CallCarrier

    def counted(call):
        opened.append(carrier(call))
        return opened[-1]

    monkeypatch.setattr("sharemesh.rpc.channels.CallCarrier", counted)
    async with serving() as service:
        caller = GrpcCaller(clock)
        for minutes in (1, 2):
            for _ in range(3 * carried_calls.CARRIED_FROM):
                await caller.call(WRITE, asked(), to=service.address)
                if opened:
                    await asyncio.wait([opened[-1]._running])
            assert len(opened) == minutes
            assert carrier_of(caller, service) is None
            clock.ms += 60_000
        await caller.close()


async def test_a_stop_waits_for_the_calls_of_a_stream_and_not_for_the_stream():
    """CAR-6."""
    async with serving() as service, calling(service) as caller:
        call = asyncio.ensure_future(caller.call(WRITE, asked("slow"), to=service.address))
        await service.begun.wait()
        stopping = asyncio.ensure_future(service.server.stop(WAIT_S * 10_000))
        await asyncio.sleep(0)
        service.go.set()
        await call
        await stopping


async def test_with_other_headers_there_is_another_stream():
    """CAR-1: a renewed token is shown with the next stream; calls under way end on the old one."""
    async with serving() as service, calling(service) as caller:
        old = carrier_of(caller, service)
        slow = asyncio.ensure_future(caller.call(WRITE, asked("slow"), to=service.address))
        await service.begun.wait()
        caller._headers = (("x-user", "bob"),)
        await carried(caller, service)
        assert carrier_of(caller, service) is not old
        assert not old.takes_calls
        assert not old.has_ended
        service.go.set()
        await slow
        await asyncio.wait([old._running])


async def test_an_unused_stream_ends(monkeypatch):
    """CAR-4: and the next calls get another one."""
    monkeypatch.setattr(carried_calls, "_IDLE_S", 0.05)
    async with serving() as service, calling(service) as caller:
        old = carrier_of(caller, service)
        await caller.call(WRITE, asked(), to=service.address, timeout_ms=50)
        await asyncio.wait([old._running])
        await carried(caller, service)
        assert carrier_of(caller, service) is not old


@pytest.mark.parametrize("group_id", ["g", "throttled"])
async def test_a_call_of_a_stream_leaves_no_cycle(group_id):
    """CAR-1: neither at its caller nor at its server."""
    async with serving() as service, calling(service) as caller:

        async def ask():
            with contextlib.suppress(CallFailedError):
                await caller.call(WRITE, asked(group_id), to=service.address)

        await ask()
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                await ask()
            assert gc.collect() < 50
        finally:
            gc.enable()
