"""The audit log over gRPC: who calls, what is refused (AUD-3), cancelled changes (AUD-4)."""

import asyncio

import grpc
import pytest

from sharemesh import methods
from sharemesh.audit.listener import AuditedListener, refused_call
from sharemesh.authorization.refusals import hear_granted
from sharemesh.rpc.limits import ServerLimits
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.tls import SECRET_HEADER, Principals
from sharemesh.v1 import admin_pb2 as admin
from sharemesh.v1.share_leader_pb2 import HoldSessionRequest
from tests.audit.events import lines, trail

pytestmark = pytest.mark.integration

SECRET = "s" * 32
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
ALICE = (("x-user", "alice"), ("traceparent", f"00-{TRACE_ID}-b7ad6b7169203331-01"))
DELETE = "/sharemesh.v1.Admin/DeleteTopics"
VERSIONS = "/sharemesh.v1.Admin/ApiVersions"
HOLD = "/sharemesh.v1.ShareLeader/HoldSession"
WAIT_S = 20


class Served:
    def __init__(self, port, log):
        self.address, self.log = f"127.0.0.1:{port}", log
        self.deleting, self.deleted = asyncio.Event(), asyncio.Event()

    async def delete(self, request, _context):
        hear_granted()
        self.deleting.set()
        try:
            if "slow" in request.names:
                await asyncio.Event().wait()
        finally:
            self.deleted.set()
        response = admin.DeleteTopicsResponse()
        for _ in request.names:
            response.topics.add()
        return response


async def versions(_request, _context):
    return admin.ApiVersionsResponse()


async def hold(stream, _context):
    async for _ in stream:
        pass


@pytest.fixture
async def served():
    log = trail()
    server = GrpcServer(
        limits=ServerLimits(max_concurrent_calls=3, max_principal_calls=2, reserved_calls=2),
        principals=Principals(SECRET, "Node:n", "x-user", ()),
        on_refused=refused_call(log),
    )
    listener = AuditedListener(server, log, bytes.hex)
    made = Served(0, log)
    listener.offer(methods.DELETE_TOPICS, made.delete)
    listener.offer(methods.API_VERSIONS, versions)
    listener.offer_stream(methods.HOLD_SESSION, hold)
    port = await server.start("127.0.0.1", 0)
    made.address = f"127.0.0.1:{port}"
    try:
        async with grpc.aio.insecure_channel(made.address) as made.channel:
            yield made
    finally:
        await server.stop(0)


def delete(served, *names, metadata=ALICE, **options):
    data = admin.DeleteTopicsRequest(names=names).SerializeToString()
    return served.channel.unary_unary(DELETE)(data, metadata=metadata, timeout=WAIT_S, **options)


async def test_a_change_has_principal_peer_trace_and_no_metadata(served):
    await delete(served, "orders", metadata=(*ALICE, (SECRET_HEADER, "x" * 32)))
    [found] = lines(served.log)
    assert found["principal"] == "User:alice"
    assert found["peer"].startswith("ipv4:127.0.0.1:")
    assert (found["trace_id"], found["decision"]) == (TRACE_ID, "done")
    assert "xxxx" not in str(found)


async def test_a_caller_that_goes_away_leaves_the_names_of_its_change(served):
    call = delete(served, "slow", "orders")
    async with asyncio.timeout(WAIT_S):
        await served.deleting.wait()
        call.cancel()
        await served.deleted.wait()
        while not (found := lines(served.log)):
            await asyncio.sleep(0)
    assert found[0]["decision"] == "unknown"
    assert [each["name"] for each in found[0]["resources"]] == ["slow", "orders"]


async def test_a_name_that_cannot_be_established_and_a_bound_are_refusals(served):
    with pytest.raises(grpc.aio.AioRpcError):
        await delete(served, "orders", metadata=(("x-user", "a"), ("x-user", "b")))
    [found] = lines(served.log)
    assert (found["error"], found["rpc"]) == ("UNAUTHENTICATED", "Admin/DeleteTopics")
    held = [served.channel.stream_stream(HOLD)(metadata=ALICE, timeout=WAIT_S) for _ in range(2)]
    for call in held:
        await call.write(HoldSessionRequest(group_id="g").SerializeToString())
        await call.initial_metadata()
    for _ in range(3):
        with pytest.raises(grpc.aio.AioRpcError):
            await served.channel.unary_unary(VERSIONS)(b"", metadata=ALICE, timeout=WAIT_S)
    first, again = lines(served.log, ending=True)
    assert (first["error"], first["principal"]) == ("RESOURCE_EXHAUSTED", "User:alice")
    assert again["repeated"] == 2
    for call in held:
        call.cancel()


async def test_traffic_that_is_not_refused_leaves_nothing(served):
    for _ in range(10):
        await served.channel.unary_unary(VERSIONS)(b"", metadata=ALICE, timeout=WAIT_S)
    assert not lines(served.log, ending=True)
