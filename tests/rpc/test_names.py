"""Names that seek another's, over real TLS: certificates, headers and tokens (BND-6, IDN-2)."""

import grpc
import pytest
import trustme
from cryptography import x509

from sharemesh.backends.local.clock import SystemClock
from sharemesh.cluster.acl_table import NODE_PRINCIPAL
from sharemesh.domain.bearer_tokens import TokenRefusal
from sharemesh.methods import API_VERSIONS
from sharemesh.ports.network import CallFailedError
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.server_certificates import ServerCertificates
from sharemesh.rpc.tls import Principals, TlsFiles
from sharemesh.v1 import admin_pb2
from tests.rpc.certificates import issue, named, replace, shown

CALL = "/sharemesh.v1.Admin/ApiVersions"
SECRET = "s" * 32
USER = "x-user"


class NoTokens:
    """Refuses every token, and counts those that it was asked about."""

    def __init__(self) -> None:
        self.asked = 0

    def wall_ms(self) -> int:
        return 0

    def known(self, _token: str) -> TokenRefusal:
        self.asked += 1
        return TokenRefusal("the token's signature does not hold")


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def tokens():
    return NoTokens()


@pytest.fixture
async def address(authority, tokens, tmp_path):
    """A server that knows every proof there is, and demands certificates; it answers the name."""

    async def who(_request, context):
        return admin_pb2.ApiVersionsResponse(server_version=context.principal)

    issue(authority, tmp_path, "server", "server")
    replace(tmp_path / "ca.crt", authority.cert_pem.bytes())
    files = TlsFiles(tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "ca.crt")
    server = GrpcServer(
        tls=ServerCertificates(files, SystemClock()),
        principals=Principals(SECRET, NODE_PRINCIPAL, USER, tokens=tokens),
    )
    server.offer(API_VERSIONS, who)
    yield f"localhost:{await server.start('127.0.0.1', 0)}"
    await server.stop(0)


@pytest.fixture
def who_is(authority, address):
    """A function that calls with a certificate and metadata, and returns who that is."""

    async def ask(pem: bytes, *metadata: tuple[str, str]) -> str:
        async with grpc.aio.secure_channel(address, shown(authority, pem)) as channel:
            answer = await channel.unary_unary(CALL)(b"", metadata=metadata, timeout=20)
        return admin_pb2.ApiVersionsResponse.FromString(answer).server_version

    return ask


@pytest.mark.parametrize("name", ["ANONYMOUS", "Node:sharemesh", "*", "User:admin", "admin ", "é"])
async def test_bnd_6_a_certificate_is_who_it_says_and_nobody_else(authority, who_is, name) -> None:
    said = await who_is(named(authority, name), (USER, "admin"), ("sharemesh-cluster-secret", "s"))
    assert said == f"User:{name}"
    assert said not in {NODE_PRINCIPAL, "User:admin"}


@pytest.mark.parametrize(
    "others",
    [
        (x509.DNSName("web.example"), x509.DNSName("admin")),
        (x509.UniformResourceIdentifier("a:b"),),
    ],
)
async def test_bnd_6_without_a_common_name_the_first_other_name_counts(
    authority, who_is, others
) -> None:
    assert await who_is(named(authority, "", *others), (USER, "bob")) == f"User:{others[0].value}"


async def test_bnd_6_a_certificate_without_a_name_is_nobodys(authority, who_is) -> None:
    assert await who_is(named(authority, ""), (USER, "bob")) == "User:ANONYMOUS"
    long = x509.DNSName("a" * 1_001)
    assert await who_is(named(authority, "", long), (USER, "bob")) == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("admin\0.mallory", ()),
        ("admin\x1b[2J", ()),
        ("admin\nFORGED", ()),
        ("\u202enimda", ()),
        ("", (x509.DNSName("admin\0.mallory"),)),
        ("", (x509.UniformResourceIdentifier("admin\0"), x509.DNSName("mallory"))),
        ("", (x509.DNSName("admin\x1b[2J"),)),
    ],
)
async def test_bnd_6_a_name_with_control_characters_names_nobody(
    authority, who_is, name, others
) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="holds control characters") as refused:
        await who_is(named(authority, name, *others))
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "admin" not in refused.value.details()


async def test_bnd_6_what_only_looks_like_an_escaped_character_is_a_name(authority, who_is) -> None:
    assert await who_is(named(authority, "back\\00slash")) == "User:back\\00slash"


def test_bnd_6_a_header_with_control_characters_names_nobody() -> None:
    for name in ("a\x1b[2J", "a\u2028b"):
        with pytest.raises(CallFailedError, match="x-user names holds control characters"):
            Principals(header=USER).of({}, [(USER, name)])
    assert Principals(header=USER).of({}, [(USER, "a\u3000b")]).principal == "User:a\u3000b"


async def test_idn_2_a_token_beside_a_certificate_is_not_looked_at(
    authority, who_is, tokens
) -> None:
    token = ("authorization", "Bearer forged")
    assert await who_is(named(authority, "jane"), token, token, (USER, "bob")) == "User:jane"
    assert not tokens.asked


async def test_idn_2_the_secret_goes_before_a_certificate(authority, who_is) -> None:
    secret = ("sharemesh-cluster-secret", SECRET)
    assert await who_is(named(authority, "jane"), secret) == NODE_PRINCIPAL
