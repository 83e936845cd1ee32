"""SCRAM against the examples of RFC 5802's successors, and against brokers that cheat (KBR-11)."""

import pytest

from sharemesh.kafka.scram import ScramError, ScramExchange

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.fixture
def exchange():
    return ScramExchange("sha256", "user", "pencil", NONCE)


def test_the_example_of_the_standard(exchange):
    assert exchange.first() == FIRST
    assert exchange.final(SERVER_FIRST) == FINAL
    exchange.check(SERVER_FINAL)


def test_names_are_escaped():
    assert ScramExchange("sha512", "a=b,c", "p", "x").first() == b"n,,n=a=3Db=2Cc,r=x"


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (SERVER_FIRST.replace(b"rOpr", b"xxxx"), "another login"),
        (SERVER_FIRST.split(b"%")[0] + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another login"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "4096 to 1000000"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1000001"), "4096 to 1000000"),
        (SERVER_FIRST.replace(b"i=4096", b"i=many"), "4096 to 1000000"),
        (SERVER_FIRST.replace(b"s=W22", b"s=!22"), "malformed"),
        (b"\xff\xfe", "malformed"),
        (b"", "another login"),
    ],
)
def test_a_broker_that_asks_for_something_else_is_refused(exchange, first, why):
    with pytest.raises(ScramError, match=why):
        exchange.final(first)


@pytest.mark.parametrize("final", [b"v=" + b"A" * 44, b"e=other-error", b"", b"v=!"])
def test_a_broker_that_does_not_know_the_password_is_refused(exchange, final):
    exchange.final(SERVER_FIRST)
    with pytest.raises(ScramError):
        exchange.check(final)


def test_nothing_is_proved_before_the_proof(exchange):
    with pytest.raises(ScramError):
        exchange.check(b"v=")
