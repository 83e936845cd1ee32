"""What only a real etcd over a real network does: lost answers, restored backups, TLS, users."""

import asyncio
import contextlib
import random
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from aetcd import rpc

from sharemesh.backends.etcd.connection import EtcdLogin, EtcdTls
from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.backends.etcd.watch import follow, range_end
from sharemesh.backends.local.clock import SystemClock
from sharemesh.ports.coordination import (
    CoordinationError,
    Delete,
    Guard,
    Put,
    RangeSnapshot,
    SessionLostError,
    WatchEvent,
)
from tests.etcd_server import EtcdServer, etcd_binary

DEADLINE_S = 20


def connect(*endpoints: str, **options: Any) -> EtcdCoordination:
    return EtcdCoordination(
        endpoints, clock=SystemClock(), rng=random.Random(random.getrandbits(64)), **options
    )


async def until(condition) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)


class DeafProxy:
    """Forwards to etcd; while ``deaf`` it forwards requests but swallows every answer."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.deaf = False
        self.refusing = False
        self.port = 0
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader, writer) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        self._writers |= {writer, up_writer}
        for source, sink, answers in ((reader, up_writer, False), (up_reader, writer, True)):
            task = asyncio.create_task(self._pipe(source, sink, answers))
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)

    async def _pipe(self, source, sink, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if not (answers and self.deaf):
                    sink.write(data)
                    await sink.drain()
        sink.close()

    def cut(self) -> None:
        """Break all connections."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in tuple(self._pipes):
            task.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)
        await self._server.wait_closed()


@pytest.fixture
async def server(tmp_path: Path):
    server = EtcdServer(tmp_path / "etcd")
    await server.start()
    yield server
    server.stop()


@pytest.fixture
async def proxy(server: EtcdServer):
    proxy = DeafProxy(server.client_port)
    await proxy.start()
    yield proxy
    await proxy.close()


async def lose_the_answer(proxy: DeafProxy, direct: EtcdCoordination, key: str) -> None:
    """Let the request through, wait until it took effect, then break the connection."""
    async with asyncio.timeout(DEADLINE_S):
        while await direct.get(key) is None:
            await asyncio.sleep(0.01)
    proxy.deaf = False
    proxy.cut()


async def test_a_write_whose_answer_was_lost_is_read_back_and_reported_as_applied(server, proxy):
    c, direct = connect(f"127.0.0.1:{proxy.port}"), connect(server.endpoint)
    await c.get("/warm")
    proxy.deaf = True
    losing = asyncio.create_task(lose_the_answer(proxy, direct, "/t/a"))
    revision = await c.commit([Guard("/t/a", create_revision=0)], [Put("/t/a", b"mine")])
    await losing
    stored = await direct.get("/t/a")
    assert stored.version == 1, "applied once"
    assert revision == stored.mod_revision
    await c.close()
    await direct.close()


async def test_several_writes_whose_answer_was_lost_are_read_back_at_one_revision(
    server, proxy, monkeypatch
):
    """One by one: etcd before 3.5.5 may end itself over a transaction that only reads."""
    c, direct = connect(f"127.0.0.1:{proxy.port}"), connect(server.endpoint)
    await direct.commit([], [Put("/t/gone", b"theirs")])
    await c.get("/warm")
    read = []
    call = c._connection.call

    async def noted(method, request, **more):
        read.append(request)
        return await call(method, request, **more)

    monkeypatch.setattr(c._connection, "call", noted)
    proxy.deaf = True
    losing = asyncio.create_task(lose_the_answer(proxy, direct, "/t/a"))
    operations = [Delete("/t/gone"), Put("/t/a", b"1"), Put("/t/b", b"2")]
    revision = await c.commit([Guard("/t/a", create_revision=0)], operations)
    await losing
    assert revision == (await direct.get("/t/b")).mod_revision
    writes = [each for each in read if isinstance(each, rpc.TxnRequest)]
    assert all(each.compare for each in writes)
    ranges = [each for each in read if isinstance(each, rpc.RangeRequest)]
    assert [each.revision for each in ranges] == [0, ranges[1].revision, ranges[1].revision]
    assert ranges[1].revision >= revision
    await c.close()
    await direct.close()


async def test_a_lost_answer_to_a_refused_write_is_not_taken_for_success(server, proxy):
    c, direct = connect(f"127.0.0.1:{proxy.port}"), connect(server.endpoint)
    await direct.commit([], [Put("/t/a", b"theirs")])
    await c.get("/warm")
    proxy.deaf = True
    losing = asyncio.create_task(lose_the_answer(proxy, direct, "/t/a"))
    assert await c.commit([Guard("/t/a", create_revision=0)], [Put("/t/a", b"mine")]) is None
    await losing
    assert (await direct.get("/t/a")).value == b"theirs"
    await c.close()
    await direct.close()


async def test_an_equal_value_of_another_is_not_taken_for_ours(server, proxy):
    c, direct = connect(f"127.0.0.1:{proxy.port}"), connect(server.endpoint)
    session, other = await c.open_session(ttl_ms=10_000), await direct.open_session(ttl_ms=10_000)
    await direct.commit([], [Put("/t/a", b"same", leased=True)], session=other)
    proxy.deaf = True
    losing = asyncio.create_task(lose_the_answer(proxy, direct, "/t/a"))
    guard = Guard("/t/a", create_revision=0)
    assert await c.commit([guard], [Put("/t/a", b"same", leased=True)], session=session) is None
    await losing
    await c.close()
    await direct.close()


async def test_a_grant_whose_answer_was_lost_yields_one_lease(server, proxy):
    c, direct = connect(f"127.0.0.1:{proxy.port}"), connect(server.endpoint)
    await c.get("/warm")
    proxy.deaf = True
    opening = asyncio.create_task(c.open_session(ttl_ms=10_000))
    leases = direct._connection.endpoint().lease

    async def granted() -> int:
        return len((await leases.LeaseLeases(rpc.LeaseLeasesRequest())).leases)

    async with asyncio.timeout(DEADLINE_S):
        while await granted() == 0:
            await asyncio.sleep(0.01)
    proxy.deaf = False
    proxy.cut()
    session = await asyncio.wait_for(opening, DEADLINE_S)
    assert session.valid
    assert await granted() == 1
    await c.close()
    await direct.close()


async def save(server: EtcdServer, backup: Path) -> None:
    words = ["--endpoints", server.endpoint, "snapshot", "save", str(backup)]
    await run_quietly("etcdctl", *words)


async def restore(server: EtcdServer, backup: Path) -> None:
    """Let etcd, stopped, begin again from a backup, as the cluster that it was."""
    restored = backup.with_name("restored")
    await run_quietly(
        "etcdutl", "snapshot", "restore", str(backup),
        "--data-dir", str(restored / "data"), "--name", server.name,
        "--initial-cluster", server.initial_cluster,
        "--initial-advertise-peer-urls", server.peer_url,
    )  # fmt: skip
    server.directory = restored
    await server.start()


async def run_quietly(program: str, *words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        etcd_binary().with_name(program),
        *words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert await process.wait() == 0


class Followed:
    """What a watch shows of a prefix, and how often it began again."""

    def __init__(self, coordination: EtcdCoordination, prefix: str) -> None:
        self.state: dict[str, bytes] = {}
        self.snapshots = 0
        self._task = asyncio.create_task(self._follow(coordination, prefix))

    async def _follow(self, coordination: EtcdCoordination, prefix: str) -> None:
        async for item in coordination.watch(prefix):
            if isinstance(item, RangeSnapshot):
                self.snapshots += 1
                self.state = {entry.key: entry.value for entry in item.entries}
            elif item.current is not None:
                self.state[item.key] = item.current.value
            else:
                self.state.pop(item.key, None)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_etcd_restored_from_a_backup_is_noticed_by_watch_and_session(server, tmp_path):
    c = connect(server.endpoint)
    await c.commit([], [Put("/t/k/kept", b"1")])
    await save(server, tmp_path / "backup")
    session = await c.open_session(ttl_ms=10_000)
    await c.commit([], [Put("/t/k/leased", b"1", leased=True)], session=session)
    for number in range(20):
        await c.commit([], [Put("/t/k/lost", b"%d" % number)])
    seen = Followed(c, "/t/k/")
    await until(lambda: len(seen.state) == 3)
    server.stop()
    await restore(server, tmp_path / "backup")
    await until(lambda: set(seen.state) == {"/t/k/kept"})
    assert seen.snapshots == 2
    await c.commit([], [Put("/t/k/new", b"1")])
    await until(lambda: set(seen.state) == {"/t/k/kept", "/t/k/new"})
    with pytest.raises(SessionLostError):
        await c.commit([], [Put("/t/k/leased", b"2", leased=True)], session=session)
    await seen.close()
    await c.close()


@pytest.mark.parametrize("last", ["put", "deletion"])
async def test_a_restored_etcd_that_wrote_as_much_again_is_told_by_the_change_it_lacks(
    server, proxy, tmp_path, last
):
    direct = connect(server.endpoint)
    far = connect(f"127.0.0.1:{proxy.port}")
    await direct.commit([], [Put("/t/k/kept", b"1")])
    await save(server, tmp_path / "backup")
    seen = Followed(far, "/t/k/")
    await until(lambda: seen.snapshots == 1)
    for number in range(5):
        await direct.commit([], [Put("/t/k/lost", b"%d" % number)])
    await until(lambda: seen.state.get("/t/k/lost") == b"4")
    if last == "deletion":
        await direct.commit([], [Delete("/t/k/lost")])
        await until(lambda: set(seen.state) == {"/t/k/kept"})
    proxy.refusing = True
    proxy.cut()
    server.stop()
    await restore(server, tmp_path / "backup")
    for number in range(30):  # more than were lost: revisions are above what the watch saw
        await direct.commit([], [Put(f"/t/k/new{number}", b"1")])
    proxy.refusing = False
    await until(lambda: len(seen.state) == 31)
    assert "/t/k/lost" not in seen.state
    assert seen.snapshots == 2
    await seen.close()
    await far.close()
    await direct.close()


async def test_a_candidate_notices_that_its_predecessor_is_not_in_a_restored_etcd(server, tmp_path):
    first, second = connect(server.endpoint), connect(server.endpoint)
    sessions = [await each.open_session(ttl_ms=10_000) for each in (first, second)]
    await first.commit([], [Put("/t/x", b"1")])
    await save(server, tmp_path / "backup")  # knows the leases, and nobody who stands
    await first.campaign("/t/election", b"first", sessions[0])
    waiting = asyncio.create_task(second.campaign("/t/election", b"second", sessions[1]))
    async with asyncio.timeout(DEADLINE_S):
        while len((await first.list("/t/election/")).entries) < 2:
            await asyncio.sleep(0.01)
    server.stop()
    await restore(server, tmp_path / "backup")
    for number in range(10):
        await first.commit([], [Put(f"/t/new{number}", b"1")])
    leadership = await asyncio.wait_for(waiting, DEADLINE_S)
    # It stands no more either: what it would do under this leadership is refused.
    assert await second.commit([leadership.guard], [Put("/t/x", b"2")]) is None
    await first.close()
    await second.close()


# ---- users ---------------------------------------------------------------------------------------


async def enable_users(server: EtcdServer) -> None:
    plain = connect(server.endpoint)
    auth = plain._connection.endpoint().auth
    await auth.UserAdd(rpc.AuthUserAddRequest(name="root", password="secret"))
    await auth.RoleAdd(rpc.AuthRoleAddRequest(name="root"))
    await auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user="root", role="root"))
    await auth.AuthEnable(rpc.AuthEnableRequest())
    await plain.close()


async def test_a_login_outlives_the_servers_memory_of_its_token(server):
    await enable_users(server)
    c = connect(server.endpoint, login=EtcdLogin("root", "secret"))
    session = await c.open_session(ttl_ms=10_000)
    await c.commit([], [Put("/t/a", b"1", leased=True)], session=session)
    items: list[Any] = []

    async def watch() -> None:
        async for item in c.watch("/t/"):
            items.append(item)

    watching = asyncio.create_task(watch())
    await until(lambda: items)
    server.stop()
    server.launch()
    await server.ready()
    await c.commit([], [Put("/t/b", b"2")])
    await until(lambda: len(items) >= 2)
    assert session.valid
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await c.close()


async def reader_without_rights(server: EtcdServer) -> tuple[EtcdCoordination, EtcdCoordination]:
    """A user whose role permits nothing, and root."""
    await enable_users(server)
    root = connect(server.endpoint, login=EtcdLogin("root", "secret"))
    connection = root._connection
    for pick, request in (
        (lambda at: at.auth.UserAdd, rpc.AuthUserAddRequest(name="reader", password="word")),
        (lambda at: at.auth.RoleAdd, rpc.AuthRoleAddRequest(name="readers")),
        (
            lambda at: at.auth.UserGrantRole,
            rpc.AuthUserGrantRoleRequest(user="reader", role="readers"),
        ),
    ):
        await connection.call(pick, request)
    return connect(server.endpoint, login=EtcdLogin("reader", "word")), root


def followed(reader: EtcdCoordination) -> AsyncGenerator[WatchEvent, None]:
    return follow(reader._connection, b"/t/", range_end("/t/"), from_revision=1)


async def test_a_watch_that_is_refused_goes_on_once_it_is_permitted(server):
    """A member that has just started refuses users that it does not know yet."""
    reader, root = await reader_without_rights(server)
    changes = followed(reader)
    waiting = asyncio.create_task(anext(changes))
    refused = f"{reader._connection.names} refused"
    with pytest.raises(CoordinationError, match=refused):
        await reader.get("/t/a")
    permission = rpc.Permission(permType=2, key=b"/t/", range_end=range_end("/t/"))
    request = rpc.AuthRoleGrantPermissionRequest(name="readers", perm=permission)
    await root._connection.call(lambda at: at.auth.RoleGrantPermission, request)
    await root.commit([], [Put("/t/a", b"1")])
    event = await asyncio.wait_for(waiting, DEADLINE_S)
    assert (event.key, event.current.value) == ("/t/a", b"1")
    await changes.aclose()
    await reader.close()
    await root.close()


async def test_a_watch_that_stays_forbidden_is_refused_in_words(server):
    reader, root = await reader_without_rights(server)
    with pytest.raises(CoordinationError, match=r"refused a watch.*check the role's key prefix"):
        await asyncio.wait_for(anext(followed(reader)), DEADLINE_S)
    await reader.close()
    await root.close()


async def test_a_watch_alone_logs_in_again_when_its_token_is_forgotten(server):
    await enable_users(server)
    c = connect(server.endpoint, login=EtcdLogin("root", "secret"))
    revision = await c.commit([], [Put("/t/a", b"1")])
    c._connection._token = "gone.1"
    changes = follow(c._connection, b"/t/", range_end("/t/"), from_revision=revision)
    event = await asyncio.wait_for(anext(changes), DEADLINE_S)
    assert event.key == "/t/a"
    await changes.aclose()
    await c.close()


async def test_a_wrong_password_is_refused_in_words(server):
    await enable_users(server)
    c = connect(server.endpoint, login=EtcdLogin("root", "wrong"))
    with pytest.raises(CoordinationError, match=r"refused.*check user, password"):
        await c.get("/t/a")
    await c.close()
    nobody = connect(server.endpoint)
    with pytest.raises(CoordinationError, match="refused"):
        await nobody.get("/t/a")
    await nobody.close()


# ---- certificates --------------------------------------------------------------------------------


def openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


def make_certificates(directory: Path) -> None:
    directory.mkdir(parents=True)
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(directory, "req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=ca", "-days", "2")  # fmt: skip
    for name in ("server", "client"):
        openssl(directory, "req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr",
                "-subj", f"/CN={name}")  # fmt: skip
        (directory / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl(directory, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey",
                "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext",
                "-out", f"{name}.pem")  # fmt: skip


async def test_mutual_tls_lets_in_who_has_a_certificate_and_nobody_else(tmp_path):
    pki = tmp_path / "pki"
    make_certificates(pki)
    server = EtcdServer(
        tmp_path / "etcd",
        arguments=(
            f"--cert-file={pki / 'server.pem'}",
            f"--key-file={pki / 'server.key'}",
            f"--trusted-ca-file={pki / 'ca.pem'}",
            "--client-cert-auth",
        ),
    )
    await server.start()
    try:
        ca = (pki / "ca.pem").read_bytes()
        tls = EtcdTls(ca, (pki / "client.pem").read_bytes(), (pki / "client.key").read_bytes())
        c = connect(f"https://{server.endpoint}", tls=tls)
        session = await c.open_session(ttl_ms=5_000)
        await c.commit([], [Put("/t/a", b"1", leased=True)], session=session)
        assert (await c.get("/t/a")).value == b"1"
        await c.commit([], [Delete("/t/a")])
        await c.close()
        for stranger in (
            connect(f"https://{server.endpoint}", tls=EtcdTls(ca)),
            connect(server.endpoint),
        ):
            with pytest.raises(CoordinationError, match="does not answer"):
                await stranger.get("/t/a")
            await stranger.close()
    finally:
        server.stop()
