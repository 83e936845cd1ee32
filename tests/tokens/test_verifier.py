"""Whom a token names, and why others name nobody (IDN-1, IDN-4 to IDN-6)."""

import hmac
import json
import logging

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sharemesh.domain.bearer_tokens import LEEWAY_MS, BearerName, TokenRefusal
from sharemesh.tokens.key_set import KEYS_MAX, KeySet, KeySetError
from sharemesh.tokens.key_source import KeySourceError
from sharemesh.tokens.known_tokens import KnownTokens
from sharemesh.tokens.verifier import READ_AGAIN_MS, READ_EVERY_MS, TokenIssuer, TokenVerifier
from tests.clocks import ManualClock
from tests.tokens.issuer import (
    AUDIENCE,
    ISSUER,
    JANE,
    NOW_S,
    claims,
    forged,
    key_set,
    private_key,
    public_entry,
    token,
)


class WallClock(ManualClock):
    """A manual clock whose wall time begins at ``NOW_S``."""

    def __init__(self) -> None:
        super().__init__()
        self._began_ms = self.now_ms()

    def wall_ms(self) -> int:
        return NOW_S * 1_000 + self.now_ms() - self._began_ms


class Source:
    """A key set that a test replaces, or that cannot be read."""

    def __init__(self, *kids: str) -> None:
        self.data: bytes | Exception = key_set(*kids)
        self.reads = 0

    async def read(self) -> bytes:
        self.reads += 1
        if isinstance(self.data, Exception):
            raise self.data
        return self.data


@pytest.fixture
def clock():
    return WallClock()


@pytest.fixture
def source():
    return Source("rs1", "p256", "p384")


@pytest.fixture
async def verifier(source, clock):
    verifier = TokenVerifier(TokenIssuer(ISSUER, AUDIENCE), source, clock)
    await verifier.start(must_read=True)
    yield verifier
    await verifier.close()


@pytest.mark.parametrize(
    "shown",
    [
        {"kid": "rs1"},
        {"kid": "rs1", "algorithm": "RS384"},
        {"kid": "rs1", "algorithm": "RS512"},
        {"kid": "p256"},
        {"kid": "p384"},
        {"aud": AUDIENCE},
        {"aud": ["other", AUDIENCE]},
        {"nbf": None},
        {"exp": NOW_S - LEEWAY_MS // 1_000 + 1},
        {"nbf": NOW_S + LEEWAY_MS // 1_000},
    ],
)
async def test_idn_1_a_token_names_its_subject(verifier, shown) -> None:
    name = verifier.known(token(**shown))
    assert isinstance(name, BearerName), name
    assert name.principal == f"User:{JANE}"
    assert name.ends_wall_ms == shown.get("exp", NOW_S + 600) * 1_000 + LEEWAY_MS
    assert verifier.known(token(**shown)).principal == name.principal


REFUSED = [
    ({"exp": NOW_S - LEEWAY_MS // 1_000}, "expired", True),
    ({"exp": None}, "times", False),
    ({"exp": "soon"}, "times", False),
    ({"exp": float("inf")}, "times", False),
    ({"exp": 1e300}, "times", False),
    ({"exp": True}, "times", False),
    ({"nbf": NOW_S + LEEWAY_MS // 1_000 + 1}, "not valid yet", True),
    ({"nbf": [1]}, "times", False),
    ({"iss": "https://evil"}, "issuer", False),
    ({"iss": None}, "issuer", False),
    ({"aud": "other"}, "audience", False),
    ({"aud": None}, "audience", False),
    ({"aud": {"sharemesh": 1}}, "audience", False),
    ({"sub": None}, "subject", False),
    ({"sub": ""}, "subject", False),
    ({"sub": "a" * 991}, "subject", False),
    ({"sub": "jane\u001b[31m"}, "control character", False),
    ({"kid": "rs-other"}, "not among those", True),
    ({"kid": "rs-other", "named": "rs1"}, "signature does not hold", False),
    ({"kid": "p256", "named": "rs1"}, "algorithm", False),
]


def signed(changed: dict) -> str:
    if any(isinstance(changed.get(name), list | dict | str | bool) for name in ("exp", "nbf")):
        return sealed(claims(**changed))
    try:
        return token(**changed)
    except (TypeError, ValueError):
        return sealed(claims(**changed))


def sealed(body: dict) -> str:
    """Return a token with any claims, also those that PyJWT would not write."""
    from jwt.api_jws import PyJWS

    data = json.dumps(body).encode()
    return PyJWS().encode(data, private_key("rs1"), "RS256", headers={"kid": "rs1"})


@pytest.mark.parametrize(("changed", "why", "stale"), REFUSED)
async def test_idn_4_a_token_that_does_not_hold_is_refused_in_words_without_it(
    verifier, changed, why, stale
) -> None:
    shown = signed(changed)
    refusal = verifier.known(shown)
    assert isinstance(refusal, TokenRefusal)
    assert why in refusal.why
    assert refusal.stale is stale
    for part in (*shown.split("."), JANE, "evil", "rs-other"):
        assert part not in refusal.why


def of_hmac() -> str:
    """A token whose HMAC key is the public key: what a check by the token's word would take."""
    public = private_key("rs1").public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    unsigned = forged({"alg": "HS256", "kid": "rs1"}, claims())
    head = unsigned.rpartition(".")[0]
    return forged(
        {"alg": "HS256", "kid": "rs1"},
        claims(),
        hmac.digest(secret, head.encode(), "sha256"),
    )


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "x",
        "a.b.c",
        "é" * 10,
        "....",
        "." * 8_192,
        forged({"alg": "none", "kid": "rs1"}, claims()),
        forged({"alg": "RS256"}, claims()),
        forged({"alg": "RS256", "kid": ["rs1"]}, claims()),
        forged({"alg": "RS256", "kid": "rs1", "crit": ["exp"]}, claims(), b"x" * 256),
        forged({"alg": "PS256", "kid": "rs1"}, claims(), b"x" * 256),
        forged({"alg": "ES256", "kid": "p384"}, claims(), b"x" * 64),
        of_hmac(),
        "a" * 8_193,
    ],
    ids=lambda _: "token",
)
async def test_idn_1_what_no_key_of_the_set_has_signed_names_nobody(verifier, shown) -> None:
    refusal = verifier.known(shown)
    assert isinstance(refusal, TokenRefusal)
    assert not refusal.stale
    assert len(refusal.why) < 200


async def test_idn_1_claims_that_are_no_object_name_nobody(verifier) -> None:
    for body in ([1], "text", 7):
        assert "no JSON object" in verifier.known(sealed(body)).why


async def test_idn_5_a_remembered_token_ends_with_its_time(verifier, clock) -> None:
    shown = token(exp=NOW_S + 10)
    assert isinstance(verifier.known(shown), BearerName)
    await clock.advance(10_000 + LEEWAY_MS - 1)
    assert isinstance(verifier.known(shown), BearerName)
    await clock.advance(1)
    assert "expired" in verifier.known(shown).why


def test_idn_5_what_is_remembered_is_bounded_by_bytes_and_ends_and_holds_no_token() -> None:
    known = KnownTokens(bytes_max=2_000)
    known.add("late", BearerName("User:late", 100), 0)
    for number in range(100):
        known.add(f"token-{number}", BearerName(f"User:{number}", 10), 0)
        assert known.size_bytes <= 2_000
    assert "token-99" not in repr(vars(known))
    known.clear()
    known.add("late", BearerName("User:late", 100), 0)
    for number in range(4):
        known.add(f"old-{number}", BearerName("User:old", 10), 0)
    known.add("new", BearerName("User:new", 100), 50)
    assert known.find("late") is not None, "those that expired make room first"
    assert known.find("old-1") is None
    known.add("huge", BearerName("User:" + "x" * 3_000, 100), 50)
    assert known.find("huge") is None


async def test_idn_6_random_key_ids_let_the_set_be_read_once_in_ten_seconds(
    verifier, source, clock
) -> None:
    assert source.reads == 1
    for _ in range(100):
        await clock.advance(READ_AGAIN_MS // 100)
        for number in range(10):
            assert verifier.known(token("rs-other", named=f"random-{number}")).stale
    assert source.reads <= 2
    for _ in range(10):
        verifier.known(token("rs-other"))
        await clock.advance(READ_AGAIN_MS)
    assert source.reads <= 12


async def test_idn_6_a_new_key_is_read_soon_and_an_old_one_ends_with_the_set(
    verifier, source, clock
) -> None:
    old = token("rs1")
    assert isinstance(verifier.known(old), BearerName)
    source.data = key_set("rs2")
    assert verifier.known(token("rs2")).stale
    await clock.advance(READ_AGAIN_MS)
    await clock.advance(1)
    assert isinstance(verifier.known(token("rs2")), BearerName)
    assert isinstance(verifier.known(old), TokenRefusal), "remembered, and forgotten with its key"


async def test_idn_6_the_set_is_read_every_five_minutes_without_being_asked(
    verifier, source, clock
) -> None:
    for _ in range(3):
        await clock.advance(READ_AGAIN_MS)
        await clock.advance(READ_EVERY_MS - READ_AGAIN_MS)
    assert source.reads == 4


@pytest.mark.parametrize(
    "bad",
    [
        KeySourceError("the issuer is away"),
        b"no json",
        b"[]",
        b'{"keys": []}',
        b'{"keys": [1]}',
        b'{"keys": [{"kty": "oct", "kid": "a", "k": "c2VjcmV0"}]}',
        json.dumps({"keys": [public_entry("rs1")] * (KEYS_MAX + 1)}).encode(),
    ],
    ids=lambda _: "set",
)
async def test_idn_6_a_read_that_fails_keeps_the_keys_and_is_said_once(
    verifier, source, clock, caplog, bad
) -> None:
    source.data = bad
    verifier.known(token("rs-other"))
    for _ in range(5):
        await clock.advance(READ_AGAIN_MS)
        await clock.advance(1)
    assert source.reads >= 4
    assert isinstance(verifier.known(token()), BearerName)
    said = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(said) == 1
    assert "keys of the token issuer not read" in said[0].message
    source.data = key_set("rs2")
    await clock.advance(READ_AGAIN_MS)
    await clock.advance(1)
    assert isinstance(verifier.known(token("rs2")), BearerName)


async def test_idn_6_a_process_starts_while_its_issuer_is_away(clock) -> None:
    source = Source("rs1")
    good, source.data = source.data, KeySourceError("the issuer is away")
    verifier = TokenVerifier(TokenIssuer(ISSUER, AUDIENCE), source, clock)
    await verifier.start(must_read=False)
    try:
        refusal = verifier.known(token())
        assert refusal.stale
        assert "could not be read yet" in refusal.why
        source.data = good
        await clock.advance(READ_AGAIN_MS)
        assert isinstance(verifier.known(token()), BearerName)
    finally:
        await verifier.close()
    source.data = KeySourceError("gone")
    with pytest.raises(KeySourceError):
        await TokenVerifier(TokenIssuer(ISSUER, AUDIENCE), source, clock).start(must_read=True)


@pytest.mark.parametrize(
    "entry",
    [
        public_entry("rsa1024"),
        public_entry("rs1", use="enc"),
        public_entry("rs1", alg="HS256"),
        public_entry("rs1", alg="PS256"),
        public_entry("p256", crv="secp256k1"),
        public_entry("p256", x="AA"),
        {**public_entry("rs1"), "kid": 7},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "a"},
    ],
)
def test_idn_6_keys_that_may_not_sign_tokens_are_left_out(entry) -> None:
    with pytest.raises(KeySetError, match="no RSA or EC key"):
        KeySet(json.dumps({"keys": [entry]}).encode())
    KeySet(json.dumps({"keys": [entry, public_entry("rs1")]}).encode())
