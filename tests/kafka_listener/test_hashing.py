"""Turns of passwords that are hashed: a flood of logins keeps no other source out (KLS-22)."""

import asyncio
import threading

import pytest

from sharemesh.domain.scram_credentials import ScramMechanism
from sharemesh.kafka_listener.login import hashing
from sharemesh.kafka_listener.login.hashing import HASHING_THREADS, Hashing, source_of
from tests.kafka_listener.logins import add_user, log_in
from tests.kafka_listener.world import ListeningMesh


class Held:
    """Hashing that is held up until ``go_on``; ``done`` tells whose passwords were hashed."""

    def __init__(self, monkeypatch):
        self.go_on = threading.Event()
        self.done = []
        monkeypatch.setattr(hashing, "salted_password", self._salted)
        self.hashing = Hashing()
        self.busy = []

    def _salted(self, mechanism, password, salt, iterations):
        assert self.go_on.wait(20)
        self.done.append(password)
        return password.encode()

    async def begin(self, source, name):
        task = asyncio.create_task(
            self.hashing.salted(source, ScramMechanism.SHA_256, name, b"", 1)
        )
        await asyncio.sleep(0)
        return task

    async def __aenter__(self):
        self.busy = [await self.begin("busy", "busy") for _ in range(HASHING_THREADS)]
        return self

    async def __aexit__(self, *_):
        self.go_on.set()
        await asyncio.gather(*self.busy, return_exceptions=True)
        self.hashing.close()


async def test_sources_take_turns_and_of_each_the_newest_is_first(monkeypatch):
    async with Held(monkeypatch) as held:
        flood = [await held.begin("flood", f"flood {at}") for at in range(10)]
        honest = await held.begin("other", "honest")
        held.go_on.set()
        assert await honest == b"honest"
        before = held.done[: held.done.index("honest")]
        assert set(before) <= {"busy", "flood 9", "flood 8"}
        assert await asyncio.gather(*flood) == [f"flood {at}".encode() for at in range(10)]


async def test_a_login_that_comes_behind_a_flood_of_its_own_source_is_first(monkeypatch):
    async with Held(monkeypatch) as held:
        flood = [await held.begin("one", "flood") for _ in range(10)]
        honest = await held.begin("one", "honest")
        held.go_on.set()
        assert await honest == b"honest"
        before = held.done[: held.done.index("honest")]
        assert before.count("flood") < HASHING_THREADS
        await asyncio.gather(*flood)


async def test_a_login_that_ends_gives_its_turn_up(monkeypatch):
    """Before its turn, and while its password is hashed."""
    async with Held(monkeypatch) as held:
        waits, ends, last = [await held.begin("one", each) for each in ("waits", "ends", "last")]
        for each in (ends, last):
            each.cancel()
            with pytest.raises(asyncio.CancelledError):
                await each
        held.busy[0].cancel()
        held.go_on.set()
        assert await waits == b"waits"
        assert held.busy[0].cancelled()
        assert not {"ends", "last"} & set(held.done)


async def test_who_has_logged_in_takes_turns_by_name(monkeypatch):
    """Not with strangers of the same address."""
    sources = []
    salted = Hashing.salted

    async def heard(hashing, source, *given):
        sources.append(source)
        return await salted(hashing, source, *given)

    monkeypatch.setattr(Hashing, "salted", heard)
    async with ListeningMesh(mechanisms=["PLAIN"]) as mesh, mesh.connect() as client:
        await add_user(mesh, "alice")
        for _ in range(2):
            assert int((await log_in(client, "PLAIN", "alice")).error_code) == 0
    assert sources == ["127.0.0.1", "User:alice"]


@pytest.mark.parametrize(
    ("peername", "source"),
    [
        (("10.0.0.1", 9), "10.0.0.1"),
        (("::ffff:10.0.0.1", 9, 0, 0), "10.0.0.1"),
        (("2001:db8::1", 9, 0, 0), "20010db800000000"),
        (("2001:db8::ffff:1", 9, 0, 0), "20010db800000000"),
        (("fe80::1%eth0", 9, 0, 2), "fe80000000000000"),
        (("", 9), ""),
        (None, ""),
    ],
)
def test_a_source_is_an_address_or_a_network_of_ipv6(peername, source):
    assert source_of(peername) == source
