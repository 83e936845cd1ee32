"""A refusal by a quota that time pays says for how long, in its trailing metadata (QUO-14)."""

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.methods import API_VERSIONS
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.server import GrpcServer
from sharemesh.v1 import admin_pb2


@pytest.mark.parametrize(
    ("failure", "said", "heard"),
    [
        (Failure.RESOURCE_EXHAUSTED, 1_234, 1_234),
        (Failure.RESOURCE_EXHAUSTED, 0, 0),
        (Failure.RESOURCE_EXHAUSTED, 10**12, 30_000),  # a client never waits for longer at once
        (Failure.RESOURCE_EXHAUSTED, -5, 0),
        (Failure.UNAVAILABLE, 1_234, 0),
    ],
)
async def test_quo_14_a_refused_call_hears_its_throttle_time(failure, said, heard):
    async def refuse(request, context):
        raise CallFailedError(failure, "not now", throttle_ms=said)

    server, caller = GrpcServer(), GrpcCaller(SystemClock())
    server.offer(API_VERSIONS, refuse)
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    try:
        with pytest.raises(CallFailedError, match="not now") as refused:
            await caller.call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
        assert refused.value.throttle_ms == heard
    finally:
        await caller.close()
        await server.stop(0)
