"""One suite for every filling of the Coordination port: etcd (real) and in-process."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from aetcd import rpc

from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.backends.etcd.namespace import NamespacedCoordination
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.ports.coordination import (
    GUARDS_MAX,
    OPERATIONS_MAX,
    CoordinationError,
    Delete,
    Guard,
    KeyValue,
    Put,
    RangeSnapshot,
    SessionLostError,
    WatchEvent,
)
from tests.clocks import LoopClock
from tests.etcd_server import EtcdServer, make_cluster
from tests.free_ports import free_port

TTL_MS = 2_000
SEED = 20261121
DEADLINE_S = 15


class World:
    """One store and any number of connections to it."""

    def __init__(self, connect: Callable[[], Any], server: EtcdServer | None) -> None:
        self._connect = connect
        self._connections: list[Any] = []
        self.server = server

    def connect(self) -> Any:
        connection = self._connect()
        self._connections.append(connection)
        return connection

    def stop_keep_alive(self, session: Any) -> None:
        """The process froze: nobody keeps the lease alive, nobody notices."""
        for task in session._tasks:
            task.cancel()

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory):
    server = EtcdServer(tmp_path_factory.mktemp("etcd"))
    server.launch()
    yield server
    server.stop()


def etcd(endpoints: list[str], **options: Any) -> EtcdCoordination:
    return EtcdCoordination(endpoints, clock=LoopClock(), rng=random.Random(SEED), **options)


@pytest.fixture(params=["local", "rooted", "etcd"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    if request.param != "etcd":
        store = LocalStore(LoopClock())
        rooted = request.param == "rooted"
        world = World(
            lambda: (
                NamespacedCoordination(LocalCoordination(store), "/elsewhere", "/t")
                if rooted
                else LocalCoordination(store)
            ),
            None,
        )
        yield world
        await world.close()
        await store.close()
        return
    server = request.getfixturevalue("etcd_server")
    await server.ready()
    seeds = random.Random()  # lease ids must differ between tests on one server
    world = World(
        lambda: EtcdCoordination(
            [server.endpoint], clock=LoopClock(), rng=random.Random(seeds.getrandbits(64))
        ),
        server,
    )
    yield world
    cleaner = world.connect()
    await cleaner.commit([], [Delete("/t/", prefix=True)])
    await world.close()


async def until(condition: Callable[[], Any], deadline_s: float = DEADLINE_S) -> None:
    async with asyncio.timeout(deadline_s):
        while not condition():
            await asyncio.sleep(0.01)


async def until_async(condition: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():
            await asyncio.sleep(0.02)


class Seen:
    """What a watch yields, collected."""

    def __init__(self, coordination: Any, prefix: str) -> None:
        self.items: list[RangeSnapshot | WatchEvent] = []
        self.task = asyncio.create_task(self._collect(coordination, prefix))

    async def _collect(self, coordination: Any, prefix: str) -> None:
        async with aclosing(coordination.watch(prefix)) as changes:
            async for item in changes:
                self.items.append(item)

    @property
    def events(self) -> list[WatchEvent]:
        return [item for item in self.items if isinstance(item, WatchEvent)]

    @property
    def snapshots(self) -> list[RangeSnapshot]:
        return [item for item in self.items if isinstance(item, RangeSnapshot)]

    def state(self) -> dict[str, bytes]:
        """Fold of snapshots and events."""
        state: dict[str, bytes] = {}
        for item in self.items:
            if isinstance(item, RangeSnapshot):
                state = {entry.key: entry.value for entry in item.entries}
            elif item.current is None:
                state.pop(item.key, None)
            else:
                state[item.key] = item.current.value
        return state

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def value(coordination: Any, key: str) -> bytes | None:
    found: KeyValue | None = await coordination.get(key)
    return found.value if found else None


# ---- keys and guarded transactions ---------------------------------------------------------------


async def test_a_put_is_read_back_with_growing_revisions(world: World) -> None:
    c = world.connect()
    first = await c.commit([], [Put("/t/a", b"1")])
    second = await c.commit([], [Put("/t/a", b"2")])
    found = await c.get("/t/a")
    assert (found.value, found.version, found.create_revision) == (b"2", 2, first)
    assert found.mod_revision == second > first
    assert await c.get("/t/none") is None


async def test_all_operations_share_one_revision(world: World) -> None:
    c = world.connect()
    revision = await c.commit([], [Put("/t/a", b"1"), Put("/t/b", b"2"), Delete("/t/c")])
    snapshot = await c.list("/t/")
    assert [(e.key, e.mod_revision) for e in snapshot.entries] == [
        ("/t/a", revision),
        ("/t/b", revision),
    ]
    assert snapshot.revision >= revision


async def test_guards_decide_for_all_or_nothing(world: World) -> None:
    c = world.connect()
    created = await c.commit([Guard("/t/a", create_revision=0)], [Put("/t/a", b"1")])
    assert created is not None
    absent = Guard("/t/a", create_revision=0)
    assert await c.commit([absent], [Put("/t/a", b"9"), Put("/t/b", b"9")]) is None
    assert await c.get("/t/b") is None
    modified = await c.commit([Guard("/t/a", mod_revision=created)], [Put("/t/a", b"2")])
    assert modified is not None
    assert await c.commit([Guard("/t/a", mod_revision=created)], [Put("/t/a", b"3")]) is None
    assert await c.commit([Guard("/t/a", create_revision=created)], [Delete("/t/a")]) is not None
    assert await c.commit([Guard("/t/a", mod_revision=0)], [Put("/t/a", b"4")]) is not None


async def test_a_prefix_is_deleted_at_once_and_neighbours_stay(world: World) -> None:
    c = world.connect()
    await c.commit([], [Put("/t/x/1", b""), Put("/t/x/2", b""), Put("/t/x0", b"")])
    await c.commit([], [Delete("/t/x/", prefix=True)])
    assert [e.key for e in (await c.list("/t/")).entries] == ["/t/x0"]


async def test_too_large_transactions_are_refused_before_they_are_sent(world: World) -> None:
    c = world.connect()
    puts = [Put(f"/t/{n:03}", b"") for n in range(OPERATIONS_MAX + 1)]
    with pytest.raises(ValueError, match="split it"):
        await c.commit([], puts)
    guards = [Guard(f"/t/{n:03}", create_revision=0) for n in range(GUARDS_MAX + 1)]
    with pytest.raises(ValueError, match="split it"):
        await c.commit(guards, puts[:1])
    assert await c.commit(guards[:GUARDS_MAX], puts[:OPERATIONS_MAX]) is not None


async def test_of_many_writers_with_one_guard_exactly_one_wins(world: World) -> None:
    writers = [world.connect() for _ in range(4)]
    won = await asyncio.gather(
        *(
            w.commit([Guard("/t/one", create_revision=0)], [Put("/t/one", b"%d" % i)])
            for i, w in enumerate(writers)
        )
    )
    assert sum(revision is not None for revision in won) == 1


# ---- sessions ------------------------------------------------------------------------------------


async def test_leased_keys_live_with_the_session(world: World) -> None:
    c = world.connect()
    session = await c.open_session(ttl_ms=TTL_MS)
    await c.commit(
        [], [Put("/t/leased", b"1", leased=True), Put("/t/plain", b"1")], session=session
    )
    assert (await c.get("/t/leased")).lease_id == session.lease_id
    assert (await c.get("/t/plain")).lease_id == 0
    await asyncio.sleep(TTL_MS / 1_000 * 1.3)  # time itself is what is tested: longer than one TTL
    assert session.valid
    await session.close()
    assert not session.valid
    assert await c.get("/t/leased") is None
    assert await value(c, "/t/plain") == b"1"


async def test_a_frozen_holder_loses_its_keys_and_finds_its_session_invalid(world: World) -> None:
    holder, other = world.connect(), world.connect()
    session = await holder.open_session(ttl_ms=TTL_MS)
    await holder.commit([], [Put("/t/frozen", b"1", leased=True)], session=session)
    world.stop_keep_alive(session)

    async def gone() -> bool:
        return await other.get("/t/frozen") is None

    await until_async(gone)
    assert not session.valid
    with pytest.raises(SessionLostError):
        await holder.commit([], [Put("/t/frozen", b"2", leased=True)], session=session)
    assert await other.get("/t/frozen") is None


async def test_a_key_can_be_put_under_somebody_elses_lease_and_ends_with_it(world: World):
    giver, heir = world.connect(), world.connect()
    session = await heir.open_session(ttl_ms=TTL_MS)
    revision = await giver.commit([], [Put("/t/claim", b"yours", lease_id=session.lease_id)])
    stored = await giver.get("/t/claim")
    assert stored is not None
    assert (stored.value, stored.lease_id, stored.mod_revision) == (
        b"yours",
        session.lease_id,
        revision,
    )
    await session.close()

    async def gone() -> bool:
        return await giver.get("/t/claim") is None

    await until_async(gone)


async def test_a_put_under_a_lease_that_is_gone_is_refused_and_changes_nothing(world: World):
    giver, heir = world.connect(), world.connect()
    mine = await giver.open_session(ttl_ms=TTL_MS)
    session = await heir.open_session(ttl_ms=TTL_MS)
    await session.close()
    puts = [Put("/t/other", b"1"), Put("/t/claim", b"yours", lease_id=session.lease_id)]
    with pytest.raises(CoordinationError):
        await giver.commit([], puts)
    with pytest.raises(CoordinationError):
        await giver.commit([], puts, session=mine)
    assert mine.valid
    assert await giver.get("/t/other") is None
    assert await giver.commit([Guard("/t/claim", create_revision=7)], puts) is None


async def test_a_session_is_given_up_before_the_store_can_end_it(world: World) -> None:
    holder, other = world.connect(), world.connect()
    session = await holder.open_session(ttl_ms=TTL_MS)
    await holder.commit([], [Put("/t/early", b"1", leased=True)], session=session)
    session._tasks[0].cancel()  # the keep-alive is stuck; the watchdog is not
    async with asyncio.timeout(DEADLINE_S):
        await session.lost()
    assert await value(other, "/t/early") == b"1"


async def test_a_parent_revokes_and_the_keys_vanish_at_once(world: World) -> None:
    child, parent = world.connect(), world.connect()
    session = await child.open_session(ttl_ms=TTL_MS)
    await child.commit([], [Put("/t/child", b"1", leased=True)], session=session)
    await parent.revoke(session.lease_id)
    assert await parent.get("/t/child") is None
    with pytest.raises(SessionLostError):
        await child.commit([], [Put("/t/child", b"2", leased=True)], session=session)
    async with asyncio.timeout(DEADLINE_S):
        await session.lost()
    await parent.revoke(session.lease_id)  # again: fine
    await parent.revoke(12345)  # never granted: fine


async def test_a_put_without_lease_frees_the_key_from_its_lease(world: World) -> None:
    c = world.connect()
    session = await c.open_session(ttl_ms=TTL_MS)
    await c.commit([], [Put("/t/k", b"1", leased=True)], session=session)
    await c.commit([], [Put("/t/k", b"2")])
    await session.close()
    assert await value(c, "/t/k") == b"2"


# ---- watches -------------------------------------------------------------------------------------


async def test_a_watch_begins_with_a_snapshot_and_yields_changes_in_order(world: World) -> None:
    c = world.connect()
    await c.commit([], [Put("/t/w/old", b"0"), Put("/t/v", b"elsewhere")])
    seen = Seen(world.connect(), "/t/w/")
    await until(lambda: seen.items)
    assert [e.key for e in seen.snapshots[0].entries] == ["/t/w/old"]
    await c.commit([], [Put("/t/w/a", b"1")])
    await c.commit([], [Put("/t/w/a", b"2"), Put("/t/w/b", b"1")])
    await c.commit([], [Put("/t/v", b"elsewhere")])
    await c.commit([], [Delete("/t/w/", prefix=True)])
    await until(lambda: len(seen.events) >= 6)
    found = [(e.key, e.current.value if e.current else None) for e in seen.events]
    assert found[0] == ("/t/w/a", b"1")
    assert sorted(found[1:3]) == [("/t/w/a", b"2"), ("/t/w/b", b"1")]
    assert sorted(key for key, v in found[3:] if v is None) == ["/t/w/a", "/t/w/b", "/t/w/old"]
    revisions = [e.revision for e in seen.events]
    assert revisions == sorted(revisions)
    assert revisions[0] > seen.snapshots[0].revision
    await seen.close()


async def test_a_watch_loses_nothing_between_snapshot_and_changes(world: World) -> None:
    writer, watcher = world.connect(), world.connect()

    async def write() -> None:
        for n in range(200):
            await writer.commit([], [Put(f"/t/n/{n % 7}", b"%d" % n)])

    writing = asyncio.create_task(write())
    seen = Seen(watcher, "/t/n/")
    await writing
    want = {e.key: e.value for e in (await writer.list("/t/n/")).entries}
    await until(lambda: seen.state() == want)
    revisions = [e.revision for e in seen.events]
    assert revisions == sorted(set(revisions))
    await seen.close()


# ---- elections -----------------------------------------------------------------------------------


async def test_candidates_win_in_the_order_in_which_they_stood(world: World) -> None:
    won: list[int] = []
    connections = [world.connect() for _ in range(3)]
    sessions = [await c.open_session(ttl_ms=10_000) for c in connections]

    async def run(number: int) -> Any:
        leadership = await connections[number].campaign(
            "/t/election/x", b"%d" % number, sessions[number]
        )
        won.append(number)
        return leadership

    first = await run(0)
    second_task = asyncio.create_task(run(1))

    async def stands(count: int) -> bool:
        return len((await connections[0].list("/t/election/x/")).entries) == count

    await until_async(lambda: stands(2))
    third_task = asyncio.create_task(run(2))
    await until_async(lambda: stands(3))
    assert won == [0]
    await connections[0].resign(first)
    second = await asyncio.wait_for(second_task, DEADLINE_S)
    assert won == [0, 1]
    await sessions[1].close()
    third = await asyncio.wait_for(third_task, DEADLINE_S)
    assert won == [0, 1, 2]
    assert first.token < second.token < third.token


async def test_writes_of_a_deposed_leader_are_refused(world: World) -> None:
    a, b = world.connect(), world.connect()
    session_a, session_b = await a.open_session(ttl_ms=10_000), await b.open_session(ttl_ms=10_000)
    old = await a.campaign("/t/election/y", b"a", session_a)
    assert await a.commit([old.guard], [Put("/t/led", b"a")]) is not None
    await b.revoke(session_a.lease_id)
    new = await asyncio.wait_for(b.campaign("/t/election/y", b"b", session_b), DEADLINE_S)
    assert await b.commit([new.guard], [Put("/t/led", b"b")]) is not None
    assert await a.commit([old.guard], [Put("/t/led", b"late")]) is None
    assert await value(b, "/t/led") == b"b"
    await a.resign(old)  # harmless: no longer ours
    assert await b.commit([new.guard], [Put("/t/led", b"still")]) is not None


async def test_a_cancelled_candidate_withdraws(world: World) -> None:
    a, b = world.connect(), world.connect()
    session_a, session_b = await a.open_session(ttl_ms=10_000), await b.open_session(ttl_ms=10_000)
    first = await a.campaign("/t/election/z", b"a", session_a)
    waiting = asyncio.create_task(b.campaign("/t/election/z", b"b", session_b))

    async def stands(count: int) -> bool:
        return len((await a.list("/t/election/z/")).entries) == count

    await until_async(lambda: stands(2))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await stands(1)
    await a.resign(first)
    assert await stands(0)


async def test_a_candidate_whose_lease_ends_stops_waiting(world: World) -> None:
    a, b = world.connect(), world.connect()
    session_a = await a.open_session(ttl_ms=10_000)
    session_b = await b.open_session(ttl_ms=TTL_MS)
    await a.campaign("/t/election/q", b"a", session_a)
    waiting = asyncio.create_task(b.campaign("/t/election/q", b"b", session_b))

    async def stands() -> bool:
        return len((await a.list("/t/election/q/")).entries) == 2

    await until_async(stands)
    await a.revoke(session_b.lease_id)
    with pytest.raises(SessionLostError):
        await asyncio.wait_for(waiting, DEADLINE_S)


async def test_standing_twice_under_one_lease_is_one_candidacy(world: World) -> None:
    c = world.connect()
    session = await c.open_session(ttl_ms=10_000)
    first = await c.campaign("/t/election/r", b"1", session)
    again = await c.campaign("/t/election/r", b"1", session)
    assert first == again


# ---- etcd only: what a network adds --------------------------------------------------------------


@pytest.fixture
async def own_etcd(tmp_path: Path) -> AsyncIterator[EtcdServer]:
    server = EtcdServer(tmp_path / "etcd")
    await server.start()
    yield server
    server.stop()


async def test_watch_and_session_survive_a_restart_of_etcd(own_etcd: EtcdServer) -> None:
    c, writer = etcd([own_etcd.endpoint]), etcd([own_etcd.endpoint])
    session = await c.open_session(ttl_ms=10_000)
    leadership = await c.campaign("/t/e", b"me", session)
    seen = Seen(c, "/t/k/")
    await until(lambda: seen.items)
    await writer.commit([], [Put("/t/k/a", b"1")])
    await until(lambda: len(seen.events) == 1)
    own_etcd.stop()
    own_etcd.launch()
    await own_etcd.ready()
    await writer.commit([], [Put("/t/k/a", b"2")])
    await until(lambda: len(seen.events) == 2)
    assert len(seen.snapshots) == 1
    assert session.valid
    assert await c.commit([leadership.guard], [Put("/t/led", b"1")]) is not None
    await seen.close()
    await c.close()
    await writer.close()


async def test_a_watch_that_missed_compacted_history_begins_again(own_etcd: EtcdServer) -> None:
    c = etcd([own_etcd.endpoint])
    seen = Seen(c, "/t/k/")
    await until(lambda: seen.items)
    own_etcd.stop()
    watched_port, own_etcd.client_port = own_etcd.client_port, free_port()
    await own_etcd.start()  # elsewhere, so that the watch cannot follow
    writer = etcd([own_etcd.endpoint])
    revision = 0
    for n in range(5):
        revision = await writer.commit([], [Put("/t/k/a", b"%d" % n)])
    endpoint = writer._connection.endpoint()
    await endpoint.kv.Compact(rpc.CompactionRequest(revision=revision, physical=True))
    own_etcd.stop(kill=False)
    own_etcd.client_port = watched_port
    await own_etcd.start()
    await until(lambda: seen.state() == {"/t/k/a": b"4"})
    assert len(seen.snapshots) == 2
    await seen.close()
    await c.close()
    await writer.close()


async def test_a_frozen_etcd_makes_a_leader_step_down_before_its_lease_could_end(
    own_etcd: EtcdServer,
) -> None:
    c = etcd([own_etcd.endpoint])
    session = await c.open_session(ttl_ms=4_000)
    started = asyncio.get_running_loop().time()
    own_etcd.send_signal(signal.SIGSTOP)
    await asyncio.wait_for(session.lost(), DEADLINE_S)
    assert asyncio.get_running_loop().time() - started < 4.0
    assert not session.valid
    own_etcd.send_signal(signal.SIGCONT)
    again = await c.open_session(ttl_ms=4_000)
    assert again.valid
    await c.close()


async def test_an_absent_etcd_is_named_in_the_error(tmp_path: Path) -> None:
    server = EtcdServer(tmp_path)
    c = etcd([server.endpoint])
    with pytest.raises(CoordinationError, match=f"{server.endpoint}.*check that it runs"):
        await c.get("/t/a")
    await c.close()


async def test_a_cluster_of_three_goes_on_without_one(tmp_path: Path) -> None:
    members = make_cluster(tmp_path)
    for member in members:
        member.launch()
    try:
        for member in members:
            await member.ready()
        c = etcd([member.endpoint for member in members])
        session = await c.open_session(ttl_ms=5_000)
        await c.commit([], [Put("/t/a", b"1", leased=True)], session=session)
        seen = Seen(c, "/t/")
        await until(lambda: seen.items)
        members[0].stop()
        await c.commit([], [Put("/t/b", b"2")])
        await until(lambda: seen.state() == {"/t/a": b"1", "/t/b": b"2"})
        assert session.valid
        await seen.close()
        await c.close()
    finally:
        for member in members:
            member.stop()


async def test_a_frozen_member_is_left_for_another_by_calls_session_and_watch(
    tmp_path: Path,
) -> None:
    members = make_cluster(tmp_path)
    for member in members:
        member.launch()
    try:
        for member in members:
            await member.ready()
        c = etcd([member.endpoint for member in members])
        writer = EtcdCoordination(
            [members[1].endpoint], clock=LoopClock(), rng=random.Random(SEED + 1)
        )
        session = await c.open_session(ttl_ms=10_000)
        seen = Seen(c, "/t/")
        await until(lambda: seen.items)
        members[0].send_signal(signal.SIGSTOP)  # the endpoint in use
        await until_async(lambda: _written(writer))
        await until(lambda: seen.state() == {"/t/b": b"2"}, deadline_s=9)
        assert await value(c, "/t/b") == b"2"
        assert session.valid
        await seen.close()
        await c.close()
        await writer.close()
    finally:
        for member in members:
            member.stop()


async def _written(writer: EtcdCoordination) -> bool:
    try:
        return await writer.commit([], [Put("/t/b", b"2")]) is not None
    except CoordinationError:
        return False  # a new leader is being elected
