"""Bearer tokens over real connections: who calls, how long, what clients do (IDN-2 to IDN-9)."""

import asyncio
import time

import grpc
import pytest
import trustme

from sharemesh.backends.local.clock import SystemClock
from sharemesh.domain.bearer_tokens import TOKEN_CHARS_MAX, BearerName, TokenRefusal
from sharemesh.methods import API_VERSIONS, CONSUME
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.limits import TOKEN_STALE
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.server_certificates import ServerCertificates
from sharemesh.rpc.shown_token import TOKEN_LOOK_MS, ShownToken, TokenFileError
from sharemesh.rpc.status import HEALS_MS
from sharemesh.rpc.tls import Principals, TlsFiles
from sharemesh.v1 import admin_pb2, share_leader_pb2
from tests.clocks import ManualClock
from tests.rpc.certificates import issue, replace

REQUEST = admin_pb2.ApiVersionsRequest()
CALL = "/sharemesh.v1.Admin/ApiVersions"
LONG_MS = 3_600_000
TLS = {"transport_security_type": [b"ssl"]}
CERTIFIED = {**TLS, "x509_common_name": [b"ann"]}


class Tokens:
    """Judges tokens by a list: text, whom it names, until when."""

    def __init__(self) -> None:
        self.names: dict[str, BearerName] = {}
        self.asked: list[str] = []

    def wall_ms(self) -> int:
        return int(time.time() * 1_000)

    def give(self, token: str, principal: str = "User:jane", for_ms: int = LONG_MS) -> None:
        self.names[token] = BearerName(principal, self.wall_ms() + for_ms)

    def known(self, token: str) -> BearerName | TokenRefusal:
        self.asked.append(token)
        if token == "forged":
            return TokenRefusal("the token's signature does not hold")
        found = self.names.get(token)
        return found or TokenRefusal("the token's key is not known here", stale=True)


@pytest.fixture
def tokens():
    return Tokens()


def bearer(text: str) -> tuple[str, str]:
    return "authorization", f"Bearer {text}"


@pytest.mark.parametrize(
    ("identity", "metadata", "expected"),
    [
        (TLS, [bearer("good")], "User:jane"),
        (TLS, [("authorization", "bearer good ")], "User:jane"),
        (TLS, [], "User:ANONYMOUS"),
        (TLS, [("x-user", "bob")], "User:bob"),
        (TLS, [bearer("good"), ("x-user", "bob")], "User:jane"),
        (CERTIFIED, [bearer("good")], "User:ann"),
        (CERTIFIED, [bearer("forged"), bearer("good")], "User:ann"),
        ({**TLS, "x509_pem_cert": [b"nameless"]}, [bearer("good")], "User:ANONYMOUS"),
        (TLS, [bearer("forged"), ("sharemesh-cluster-secret", "s" * 16)], "Node:n"),
    ],
)
def test_idn_2_the_first_proof_that_is_there_counts(tokens, identity, metadata, expected) -> None:
    tokens.give("good")
    principals = Principals("s" * 16, "Node:n", "x-user", tokens=tokens)
    assert principals.of(identity, metadata).principal == expected
    if expected not in {"User:jane"}:
        assert not tokens.asked, "the token is not looked at"


@pytest.mark.parametrize(
    ("identity", "metadata", "why"),
    [
        (TLS, [bearer("forged")], "signature"),
        (TLS, [bearer("forged"), ("x-user", "bob")], "signature"),
        (TLS, [bearer("good"), bearer("good")], "2 values"),
        (TLS, [("authorization", "Basic good")], "not of the form"),
        (TLS, [("authorization", "good")], "not of the form"),
        (TLS, [("authorization", "")], "not of the form"),
        ({}, [bearer("good")], "over TLS only"),  # IDN-3
    ],
)
def test_idn_2_a_token_that_does_not_hold_names_nobody(tokens, identity, metadata, why) -> None:
    tokens.give("good")
    principals = Principals(header="x-user", tokens=tokens)
    with pytest.raises(CallFailedError, match=why) as refused:
        principals.of(identity, metadata)
    assert refused.value.failure is Failure.UNAUTHENTICATED
    assert not refused.value.stale
    assert "good" not in str(refused.value)


@pytest.fixture
def directory(tmp_path):
    authority = trustme.CA()
    issue(authority, tmp_path, "server", "server")
    replace(tmp_path / "ca.crt", authority.cert_pem.bytes())
    replace(tmp_path / "token", b"first\n")
    return tmp_path


@pytest.fixture
async def address(directory, tokens):
    """A server that takes tokens; handlers answer whom they serve and what they see."""

    async def who(_request, context):
        assert "authorization" not in dict(context.metadata), "IDN-4"
        return admin_pb2.ApiVersionsResponse(server_version=context.principal)

    async def echo(stream, _context):
        async for _ in stream:
            await stream.send(share_leader_pb2.ConsumeResponse())

    files = TlsFiles(directory / "server.crt", directory / "server.key")
    server = GrpcServer(
        tls=ServerCertificates(files, SystemClock()), principals=Principals(tokens=tokens)
    )
    server.offer(API_VERSIONS, who)
    server.offer_stream(CONSUME, echo)
    yield f"localhost:{await server.start('127.0.0.1', 0)}"
    await server.stop(0)


@pytest.fixture
async def caller_of(directory):
    """A function that makes a caller that shows the token of the file ``token``."""
    made = []

    def make(clock=None):
        tls = TlsFiles(authority=directory / "ca.crt")
        caller = GrpcCaller(clock or SystemClock(), tls=tls, token_file=directory / "token")
        made.append(caller)
        return caller

    yield make
    for caller in made:
        await caller.close()


async def who_is(caller, address) -> str:
    return (await caller.call(API_VERSIONS, REQUEST, to=address)).server_version


async def echoed(stream) -> None:
    await stream.send(share_leader_pb2.ConsumeRequest(credit_records=1))
    await anext(stream)


async def ended(stream) -> CallFailedError:
    with pytest.raises(CallFailedError) as failed:
        async with asyncio.timeout(20):
            await anext(stream)
    return failed.value


async def test_idn_4_a_refusal_says_why_and_whether_it_heals(directory, address, tokens) -> None:
    trust = grpc.ssl_channel_credentials((directory / "ca.crt").read_bytes())
    async with grpc.aio.secure_channel(address, trust) as channel:
        call = channel.unary_unary(CALL)
        for shown, heals in (("forged", False), ("unknown", True)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(b"", metadata=(bearer(shown),), timeout=20)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert (TOKEN_STALE in dict(refused.value.trailing_metadata())) is heals
            assert shown not in refused.value.details()


async def test_idn_7_a_stream_ends_with_its_token(address, tokens, caller_of) -> None:
    tokens.give("first", for_ms=300)
    stream = await caller_of().stream(CONSUME, to=address)
    await echoed(stream)
    failure = await ended(stream)
    assert failure.failure is Failure.UNAVAILABLE, "it is opened again (IDN-9)"
    assert "the token of this stream has expired" in failure.message


async def test_idn_7_a_stream_goes_on_with_a_later_token_of_its_principal_on_its_connection(
    directory, address, tokens, caller_of
) -> None:
    tokens.give("first", for_ms=1_500)
    clock = ManualClock()
    caller, elsewhere = caller_of(clock), caller_of()
    stream, other = await caller.stream(CONSUME, to=address), None
    other = await elsewhere.stream(CONSUME, to=address)
    await echoed(stream)
    tokens.give("second")
    replace(directory / "token", b"second\n")
    seen = len(tokens.asked)
    async with asyncio.timeout(20):
        while "second" not in tokens.asked[seen:]:
            await clock.advance(TOKEN_LOOK_MS)  # nobody calls: the caller shows it by itself
            await asyncio.sleep(0.01)
    tokens.names.pop("second")  # so that the other connection is shown nothing
    assert "has expired" in (await ended(other)).message
    await echoed(stream)
    await stream.close()


async def test_idn_7_another_principal_prolongs_nothing(
    directory, address, tokens, caller_of
) -> None:
    tokens.give("first", for_ms=500)
    caller = caller_of(ManualClock())
    stream = await caller.stream(CONSUME, to=address)
    await echoed(stream)
    tokens.give("joan", "User:joan")
    replace(directory / "token", b"joan\n")
    caller._look_at_token()
    assert await who_is(caller, address) == "User:joan"
    assert "has expired" in (await ended(stream)).message


async def test_idn_8_a_replaced_token_is_shown_and_a_bad_one_is_not(
    directory, address, tokens, caller_of, caplog
) -> None:
    clock = ManualClock()
    caller = caller_of(clock)
    tokens.give("first")
    tokens.give("second", "User:joan")
    assert await who_is(caller, address) == "User:jane"
    replace(directory / "token", b"second")
    assert await who_is(caller, address) == "User:jane", "looked at each second only"
    await clock.advance(TOKEN_LOOK_MS)
    assert await who_is(caller, address) == "User:joan"
    for bad in (b"", b"a\nb", b"\xff", b"x" * (TOKEN_CHARS_MAX + 1)):
        replace(directory / "token", bad)
        for _ in range(3):
            await clock.advance(TOKEN_LOOK_MS)
            assert await who_is(caller, address) == "User:joan"
    (directory / "token").unlink()
    await clock.advance(TOKEN_LOOK_MS)
    assert await who_is(caller, address) == "User:joan"
    said = [each.message for each in caplog.records if "token file not read" in each.message]
    assert len(said) == 2, "a bad one, and none"


@pytest.mark.parametrize("data", [None, b"", b" \n", b"a b\nc", "é".encode(), b"x" * 8_193])
def test_idn_8_a_file_without_a_token_is_refused_at_the_start(tmp_path, data) -> None:
    path = tmp_path / "token"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(TokenFileError, match=str(path)):
        ShownToken(path)


async def test_idn_9_a_refused_call_is_repeated_with_the_token_that_took_its_place(
    directory, address, tokens, caller_of
) -> None:
    caller = caller_of(ManualClock())  # no time passes: nobody looks for its own sake
    tokens.give("first")
    assert await who_is(caller, address) == "User:jane"
    tokens.names.clear()
    tokens.give("second")
    replace(directory / "token", b"second")
    assert await who_is(caller, address) == "User:jane"
    assert tokens.asked == ["first", "first", "second"]


async def test_idn_9_what_may_heal_is_tried_for_two_minutes_and_then_ends_in_words(
    address, tokens, caller_of
) -> None:
    clock = ManualClock()
    caller = caller_of(clock)

    async def refused(open_stream: bool) -> CallFailedError:
        call = caller.stream(CONSUME, to=address) if open_stream else who_is(caller, address)
        with pytest.raises(CallFailedError, match="not known here") as failed:
            await call
        return failed.value

    for open_stream in (False, True):
        assert (await refused(open_stream)).failure is Failure.UNAVAILABLE
    await clock.advance(HEALS_MS - 1)
    assert (await refused(open_stream=True)).failure is Failure.UNAVAILABLE
    await clock.advance(1)
    for open_stream in (False, True):
        last = await refused(open_stream)
        assert last.failure is Failure.UNAUTHENTICATED
        assert "replace the token" in last.message
    tokens.give("first")
    assert await who_is(caller, address) == "User:jane"
    tokens.names.clear()
    assert (await refused(open_stream=False)).failure is Failure.UNAVAILABLE, "counted anew"


async def test_idn_9_what_never_heals_ends_at_once(directory, address, tokens, caller_of) -> None:
    replace(directory / "token", b"forged")
    caller = caller_of()
    for opened in (
        caller.call(API_VERSIONS, REQUEST, to=address),
        caller.stream(CONSUME, to=address),
    ):
        with pytest.raises(CallFailedError, match="signature") as failed:
            await opened
        assert failed.value.failure is Failure.UNAUTHENTICATED
