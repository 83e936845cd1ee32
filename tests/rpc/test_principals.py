"""Who a caller is: the cluster's secret, a certificate, a header, in this order."""

import grpc
import pytest

from sharemesh.methods import API_VERSIONS
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.tls import SECRET_HEADER, Principals
from sharemesh.v1 import admin_pb2

NOBODY = {}
CERTIFIED = {"x509_common_name": [b"ann"]}
SECRET = "s" * 32


@pytest.mark.parametrize(
    ("principals", "identity", "metadata", "expected"),
    [
        (Principals(), NOBODY, [], "User:ANONYMOUS"),
        (Principals(), CERTIFIED, [], "User:ann"),
        (Principals(), NOBODY, [("x-user", "bob")], "User:ANONYMOUS"),
        (Principals(), NOBODY, [(SECRET_HEADER, "")], "User:ANONYMOUS"),
        (Principals(header="x-user"), NOBODY, [("x-user", "bob")], "User:bob"),
        (Principals(header="x-user"), NOBODY, [("x-user", "")], "User:ANONYMOUS"),
        (Principals(header="x-user"), NOBODY, [("x-user", "b" * 1_001)], "User:ANONYMOUS"),
        (Principals(header="x-user"), CERTIFIED, [("x-user", "bob")], "User:ann"),
        (Principals(SECRET, "Node:n"), NOBODY, [(SECRET_HEADER, SECRET)], "Node:n"),
        (Principals(SECRET, "Node:n"), CERTIFIED, [(SECRET_HEADER, "wrong")], "User:ann"),
        (Principals(SECRET, "Node:n", "x-user"), NOBODY, [("x-user", "Node:n")], "User:Node:n"),
        (Principals("", "Node:n"), NOBODY, [(SECRET_HEADER, "")], "User:ANONYMOUS"),
    ],
)
def test_the_first_proof_counts(principals, identity, metadata, expected):
    assert principals.of(identity, metadata) == (expected, None)


def test_bnd_6_a_header_with_two_values_names_nobody():
    principals = Principals("", "Node:n", "x-user")
    for values in (["ann", "bob"], ["bob", "bob"], ["", "bob"]):
        with pytest.raises(CallFailedError, match="2 values of x-user") as refused:
            principals.of(NOBODY, [("x-user", value) for value in values])
        assert refused.value.failure is Failure.UNAUTHENTICATED


@pytest.mark.parametrize(
    "certificate",
    [
        {"x509_common_name": [b"ANONYMOUS"]},
        {"x509_common_name": [b""], "x509_pem_cert": [b"without a name"]},
        {"x509_pem_cert": [b"without any name"]},
    ],
)
def test_bnd_6_a_caller_with_a_certificate_is_never_who_the_header_says(certificate):
    principals = Principals("", "Node:n", "x-user")
    assert principals.of(certificate, [("x-user", "bob")]).principal == "User:ANONYMOUS"
    two = principals.of(certificate, [("x-user", "a"), ("x-user", "b")])
    assert two.principal == "User:ANONYMOUS"


async def test_bnd_6_a_call_with_two_names_is_unauthenticated():
    async def who(_request, context):
        return admin_pb2.ApiVersionsResponse(server_version=context.principal)

    server = GrpcServer(principals=Principals(header="x-user"))
    server.offer(API_VERSIONS, who)
    port = await server.start("127.0.0.1", 0)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/sharemesh.v1.Admin/ApiVersions")
            with pytest.raises(grpc.aio.AioRpcError, match="2 values of x-user") as refused:
                await call(b"", metadata=(("x-user", "proxy"), ("x-user", "mallory")), timeout=20)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    finally:
        await server.stop(0)
