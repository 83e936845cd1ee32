"""TLS files, bearer token and headers of a client reach the server, or are refused by name."""

import pytest
import trustme

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import connect
from sharemesh.client.errors import ConfigError
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.server_certificates import ServerCertificates
from sharemesh.rpc.tls import TlsFiles
from sharemesh.v1 import admin_pb2


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.crt")
    for name in ("server", "client"):
        issued = authority.issue_cert("localhost", common_name=name)
        issued.private_key_pem.write_to_path(directory / f"{name}.key")
        for number, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(directory / f"{name}.crt", append=number > 0)
    return directory


def settings(directory) -> dict[str, str]:
    return {
        "security_protocol": "ssl",
        "ssl_ca_location": str(directory / "ca.crt"),
        "ssl_certificate_location": str(directory / "client.crt"),
        "ssl_key_location": str(directory / "client.key"),
    }


async def test_certificate_and_headers_go_with_each_call(directory):
    files = TlsFiles(directory / "server.crt", directory / "server.key", directory / "ca.crt")
    server = GrpcServer(tls=ServerCertificates(files, SystemClock()))
    seen = []

    async def metadata(request, context):
        seen.append(context)
        return admin_pb2.MetadataResponse()

    server.offer(methods.METADATA, metadata)
    port = await server.start("localhost", 0)
    config = {**settings(directory), "sasl_token": "secret", "request_headers": "x-user=ann, x-b=c"}
    try:
        async with connect(f"localhost:{port}", **config).async_admin() as admin:
            assert await admin.list_topics() == []
    finally:
        await server.stop(0)
    (context,) = seen
    assert context.principal == "User:client"
    sent = dict(context.metadata)
    assert (sent["x-user"], sent["x-b"]) == ("ann", "c")
    assert "authorization" not in sent, "no handler sees it (IDN-4)"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"request_headers": "no-value"}, "no-value"),
        ({"request_headers": "Upper=x"}, "Upper"),
        ({"request_headers": "grpc-timeout=1"}, "grpc-timeout"),
        ({"request_headers": "x=a\nb"}, "request.headers"),
        ({"sasl_token": "a\nb"}, "sasl.token"),
        ({"sasl_token_location": "/token"}, "over TLS only"),  # IDN-3
        ({"sasl_token_location": "/gone", "security_protocol": "ssl"}, "token file /gone"),
        (
            {"sasl_token_location": "/t", "sasl_token": "t", "security_protocol": "ssl"},
            "give one of them",
        ),
        ({"security_protocol": "ssl", "ssl_ca_location": "/gone.crt"}, r"gone\.crt"),
        ({"security_protocol": "sasl"}, "plaintext, ssl"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(config, named):
    with pytest.raises(ConfigError, match=named):
        connect("localhost:1", **config).admin()
