"""Where abuse happens: a real `sharemesh up` with client certificates and access rules.

Two tenants. The quiet one (alice) owns the topic ``secret`` and the group ``alices``, and is
measured by a process of its own. Abusers call with raw bytes, so that requests may be anything;
each answer, error and message of a stream is looked through for what is the quiet tenant's.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc
import trustme
from google.protobuf.message import Message

from sharemesh.client import connect
from sharemesh.client.acls import AclBinding, AclBindingFilter
from sharemesh.client.connect import Cluster
from sharemesh.client.errors import SharemeshError
from sharemesh.methods import Method
from tests.faults.trials import ROOT
from tests.rpc.bursts import allow_many_files
from tests.rpc.certificates import issue, replace

START_TIMEOUT_S = 90.0
POLL_S = 0.05
STOP_TIMEOUT_S = 20.0
CALL_TIMEOUT_S = 30.0
ABUSER_NICE = 10
"""Abusers yield the processor: what they cost themselves is not the cluster's doing."""

SECRET, ALICES = "secret", "alices"
"""The quiet tenant's topic and group."""

ROOM = "alices-room"
"""A group of the quiet tenant that another member of the same group may spoil."""

MINE, MALLOR = "mallory-t", "mallor"
"""A topic and the prefix of groups of the principal with rights on other things."""

PAYLOAD = b"alice's own words"
CLIENT_ID = "alices-laptop"
ROLES = ("controller", "share-coordinator", "group-coordinator", "share-leader")
SERVERS = "sharemesh"
NAMES = (SERVERS, "root", "alice", "mallory", "bob", "rita", "sam")

NO_CERTIFICATE, WRONG_CA, NO_RIGHT, OTHER_RIGHT, REVOKED, SAME_GROUP = (
    "no certificate",
    "wrong CA",
    "no right",
    "right on another thing",
    "revoked",
    "same group",
)
CALLS_AS = {NO_RIGHT: "bob", OTHER_RIGHT: "mallory", REVOKED: "rita", SAME_GROUP: "sam"}
KINDS = (NO_CERTIFICATE, WRONG_CA, *CALLS_AS)

RSS_RE = re.compile(r"VmRSS:\s+(\d+) kB")
Answer = TypeVar("Answer", bound=Message)
Rule = tuple[str, str, str]  # operation, type of resource, its name

RULES: dict[str, tuple[Rule, ...]] = {
    "alice": (
        ("all", "topic", SECRET),
        *(("all", "group", name) for name in (ALICES, ROOM)),
    ),
    "mallory": (("all", "topic", MINE), ("all", "group", MALLOR + "*")),
    "rita": (("read", "topic", SECRET), ("read", "group", ALICES), ("all", "group", ROOM)),
    "sam": (("read", "topic", SECRET), ("read", "group", ROOM), ("describe", "group", ROOM)),
}


@dataclass(frozen=True, slots=True)
class Said:
    """How a call ended: its answer, or the code and the words of its failure."""

    data: bytes = b""
    code: grpc.StatusCode = grpc.StatusCode.OK
    words: str = ""


@dataclass(slots=True)
class Stage:
    """One running cluster, and everybody's way to call it."""

    work: Path
    addresses: dict[str, str] = field(default_factory=dict)
    kafka: str = ""
    """Where clients of Kafka reach the share leader."""

    hidden: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    """What may not be told to others, by what it is, in all forms that it has."""

    topic_ids: dict[str, bytes] = field(default_factory=dict)
    revealed: list[str] = field(default_factory=list)
    said: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    may_see: frozenset[str] = frozenset()
    """What of ``hidden`` the principal of this moment may see."""

    _channels: dict[tuple[str, str], grpc.aio.Channel] = field(default_factory=dict)

    # ---- processes ------------------------------------------------------------------------------

    def processes(self) -> dict[str, tuple[int, int]]:
        """Return pid and number of restarts of each process, by name."""
        run = json.loads((self.work / "data" / "run" / "cluster.json").read_text())
        return {each["name"]: (each["pid"], each["restarts"]) for each in run["processes"]}

    def memory(self) -> dict[str, int]:
        """Return the resident bytes of each process but etcd, by name."""
        found = {}
        for name, (pid, _) in self.processes().items():
            if name.startswith("etcd"):
                continue
            with contextlib.suppress(OSError):
                match = RSS_RE.search(Path(f"/proc/{pid}/status").read_text())
                found[name] = int(match[1]) * 1024 if match else 0
        return found

    def tracebacks(self) -> list[str]:
        """Return what handlers that failed have logged, of all processes."""
        return [
            f"{path.name}: {line[:600]}"
            for path in sorted((self.work / "data" / "logs").glob("*"))
            for line in path.read_text(errors="replace").splitlines()
            if "handler of" in line and "failed" in line
        ]

    # ---- callers --------------------------------------------------------------------------------

    def config(self, name: str) -> dict[str, str]:
        """Return what a client of this name connects with."""
        return {
            "bootstrap_servers": ",".join(self.addresses.values()),
            "security_protocol": "ssl",
            "ssl_ca_location": str(self.work / "ca.crt"),
            "ssl_certificate_location": str(self.work / f"{name}.crt"),
            "ssl_key_location": str(self.work / f"{name}.key"),
        }

    def client(self, name: str) -> Cluster:
        """Return a proper client of this name."""
        return connect(**self.config(name))

    def credentials(self, who: str) -> grpc.ChannelCredentials:
        """Return the credentials of a kind of principal, or of a name."""
        authority = (self.work / "ca.crt").read_bytes()
        name = CALLS_AS.get(who, who)
        if who == NO_CERTIFICATE:
            return grpc.ssl_channel_credentials(authority)
        if who == WRONG_CA:
            name = "forged"
        key, chain = (self.work / f"{name}.{suffix}" for suffix in ("key", "crt"))
        return grpc.ssl_channel_credentials(authority, key.read_bytes(), chain.read_bytes())

    def channel(self, who: str, role: str) -> grpc.aio.Channel:
        """Return a connection to a role, one for each principal."""
        key = (who, role)
        if key not in self._channels:
            self._channels[key] = self.new_channel(who, role)
        return self._channels[key]

    def new_channel(self, who: str, role: str) -> grpc.aio.Channel:
        """Return a connection of its own, which the caller closes."""
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        return grpc.aio.secure_channel(self.addresses[role], self.credentials(who), options=options)

    async def send(
        self,
        who: str,
        role: str,
        method: Method[Any, Any] | str,
        request: Message | bytes,
        *,
        headers: Sequence[tuple[str, str]] = (),
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Said:
        """Call once and look through the answer."""
        name = method if isinstance(method, str) else f"/sharemesh.v1.{method.name}"
        data = request if isinstance(request, bytes) else request.SerializeToString()
        invoke: Any = self.channel(who, role).unary_unary(name)
        try:
            said = Said(await invoke(data, timeout=timeout_s, metadata=tuple(headers)))
        except grpc.aio.AioRpcError as error:
            said = Said(code=error.code(), words=error.details() or "")
            self.refused += 1
        self.look(name, data, said.data + said.words.encode())
        self.said[said.code.name] = self.said.get(said.code.name, 0) + 1
        return said

    async def ask(
        self, who: str, role: str, method: Method[Any, Answer], request: Message
    ) -> Answer:
        """Call once; an empty answer stands for a failure."""
        said = await self.send(who, role, method, request)
        return method.response.FromString(said.data)

    @contextlib.asynccontextmanager
    async def stream(
        self, who: str, role: str, method: Method[Any, Any], *requests: Message | bytes
    ) -> AsyncIterator[Any]:
        """Open a stream that has said this much; it is cancelled afterwards."""
        invoke: Any = self.channel(who, role).stream_stream(f"/sharemesh.v1.{method.name}")
        call = invoke()
        try:
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                for each in requests:
                    data = each if isinstance(each, bytes) else each.SerializeToString()
                    await call.write(data)
            yield call
        finally:
            call.cancel()

    async def heard(
        self,
        who: str,
        role: str,
        method: Method[Any, Any],
        *requests: Message | bytes,
        for_s: float = 1.0,
    ) -> list[bytes]:
        """Return what a stream says in a while, looked through."""
        found: list[bytes] = []
        sent = b"".join(
            each if isinstance(each, bytes) else each.SerializeToString() for each in requests
        )
        async with self.stream(who, role, method, *requests) as call:
            with contextlib.suppress(TimeoutError, asyncio.InvalidStateError):
                async with asyncio.timeout(for_s):
                    try:
                        while (data := await call.read()) is not grpc.aio.EOF:
                            found.append(data)
                            self.look(method.name, sent, data)
                        words = (await call.details() or "").encode()
                    except grpc.aio.AioRpcError as error:
                        words = (error.details() or "").encode()
                    self.look(method.name, sent, words)
        return found

    def look(self, what: str, sent: bytes, got: bytes) -> None:
        """Note what an answer tells of the quiet tenant that its request did not say."""
        for name, forms in self.hidden.items():
            if name in self.may_see or any(form in sent for form in forms):
                continue
            if any(form in got for form in forms):
                self.revealed.append(f"{what} tells {name}: {got[:200]!r}")

    async def close_channels(self) -> None:
        """Close what abusers opened."""
        channels, self._channels = self._channels, {}
        await asyncio.gather(*(each.close() for each in channels.values()))

    # ---- what exists ----------------------------------------------------------------------------

    async def allow(self, name: str, *rules: Rule) -> None:
        """Add rules; a name that ends in ``*`` is a prefix."""
        made = [
            AclBinding(
                f"User:{name}", operation, resource, thing.removesuffix("*"),
                prefixed=thing.endswith("*"),
            )
            for operation, resource, thing in rules
        ]  # fmt: skip
        async with self.client("root").async_admin() as admin:
            problems = await admin.create_acls(made)
        assert set(problems.values()) <= {None}, problems

    async def forbid(self, name: str) -> None:
        """Remove all rules of a principal."""
        async with self.client("root").async_admin() as admin:
            await admin.delete_acls(AclBindingFilter(principal=f"User:{name}"))

    async def prepare(self) -> None:
        """Make rules, topics and groups of both tenants; take rita's rights away again."""
        async with self.client("root").async_admin() as admin:
            for topic in (SECRET, MINE):
                await admin.create_topic(topic, 2)
                described = (await admin.describe_topics([topic]))[topic]
                if isinstance(described, Exception):
                    raise described
                self.topic_ids[topic] = bytes.fromhex(described.topic_id)
            for group in (ALICES, ROOM, MALLOR + "y"):
                await admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
        for name, rules in RULES.items():
            await self.allow(name, *rules)
        async with self.client("root").async_producer() as producer:
            await producer.send_and_wait(SECRET, PAYLOAD)
        await self.forbid("rita")
        secret = self.topic_ids[SECRET]
        self.hidden |= {
            "topic name": (SECRET.encode(),),
            "topic id": (secret, secret.hex().encode(), str(uuid.UUID(bytes=secret)).encode()),
            "group": (ALICES.encode(),),
            "payload": (PAYLOAD,),
            "client id": (CLIENT_ID.encode(),),
        }


@contextlib.asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Start a cluster by its command line, and end it."""
    allow_many_files()
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="abuse-") as folder:
        work = Path(folder)
        _certificates(work)
        with (work / "up.log").open("ab") as output:
            up = await asyncio.create_subprocess_exec(
                *_command(work), cwd=work, stdout=output, stderr=output
            )
        made = Stage(work)
        try:
            await _ready(made, up)
            await made.prepare()
            yield made
        finally:
            await made.close_channels()
            if up.returncode is None:
                up.send_signal(signal.SIGTERM)
                try:
                    await asyncio.wait_for(up.wait(), STOP_TIMEOUT_S)
                except TimeoutError:
                    up.kill()
                    await up.wait()


def _certificates(work: Path) -> None:
    authority, wrong = trustme.CA(), trustme.CA()
    replace(work / "ca.crt", authority.cert_pem.bytes())
    for name in NAMES:
        issue(authority, work, name, name)
    issue(wrong, work, "forged", "alice")


def _command(work: Path) -> list[str]:
    settings = {
        "data-directory": work / "data",
        "base-port": 0,
        "controllers": 1,
        "group-coordinators": 1,
        "share-leaders": 1,
        "share-coordinators": 1,
        "group-shards": 2,
        "state-shards": 2,
        "tls-certificate": work / f"{SERVERS}.crt",
        "tls-key": work / f"{SERVERS}.key",
        "tls-authority": work / "ca.crt",
        "authorizer": "acl",
        "super-users": f"User:{SERVERS},User:root",
        "kafka-listener": "127.0.0.1:0",
        "kafka-listener-sasl-mechanisms": "PLAIN,SCRAM-SHA-512",
        "stop-timeout-ms": 5_000,
    }
    command = [sys.executable, "-m", "sharemesh.cli", "up", "--plain"]
    return command + [f"--{name}={value}" for name, value in settings.items()]


async def _ready(made: Stage, up: asyncio.subprocess.Process) -> None:
    """Wait until each role has an address and answers."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    run_file = made.work / "data" / "run" / "cluster.json"
    while set(made.addresses) != set(ROLES):
        if up.returncode is not None or loop.time() - began > START_TIMEOUT_S:
            raise AssertionError(f"up did not start: {(made.work / 'up.log').read_text()[-3_000:]}")
        await asyncio.sleep(POLL_S)
        with contextlib.suppress(OSError, ValueError):
            run = json.loads(run_file.read_text())
            ready = {
                each["role"]: each["address"]
                for each in run["processes"]
                if each["address"] and each["state"] == "ready"
            }
            made.addresses = {role: ready[role] for role in ROLES if role in ready}
            made.kafka = next(iter(run["kafka_bootstrap"]), "")
    while loop.time() - began < START_TIMEOUT_S:
        try:
            async with made.client("root").async_admin() as admin:
                await admin.list_groups()
        except SharemeshError:
            await asyncio.sleep(POLL_S)
        else:
            return


def yield_the_processor() -> None:
    """Let everybody else go first from now on; processes started before are not concerned."""
    os.nice(max(0, ABUSER_NICE - os.nice(0)))
