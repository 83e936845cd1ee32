"""Three etcd nodes in network namespaces of their own, so that one can be cut off."""

import asyncio
import json
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.etcd_server import etcd_binary
from tests.faults.namespaces import Namespaces, inside

CLIENT_PORT = 2379
PEER_PORT = 2380
READY_TIMEOUT_S = 20


def etcdctl(*words: str, endpoints: tuple[str, ...]) -> str:
    """Run etcdctl and return what it printed.

    Raises:
        CalledProcessError: It failed.
    """
    command = [str(etcd_binary().with_name("etcdctl")), f"--endpoints={','.join(endpoints)}"]
    command += ["--command-timeout=5s", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def etcdutl(*words: str) -> None:
    """Run etcdutl (offline work on etcd's files).

    Raises:
        CalledProcessError: It failed.
    """
    command = [str(etcd_binary().with_name("etcdutl")), *words]
    subprocess.run(command, capture_output=True, check=True)


class EtcdNodes:
    """An etcd of three in namespaces; use it as an async context manager."""

    def __init__(self, directory: Path, net: Namespaces) -> None:
        self._directory = directory
        self._places = [net.add() for _ in range(3)]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Where clients reach the nodes."""
        return tuple(f"{address}:{CLIENT_PORT}" for _, address in self._places)

    async def __aenter__(self) -> "EtcdNodes":
        for name, address in self._places:
            self._processes.append(self._launch(name, address))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_TIMEOUT_S
        while True:
            with suppress(subprocess.CalledProcessError):
                await asyncio.to_thread(self.leader)
                return self
            if loop.time() > deadline:
                await self.__aexit__()
                raise TimeoutError(f"etcd in namespaces did not start; see {self._directory}")
            await asyncio.sleep(0.1)

    async def __aexit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def kill(self, number: int) -> None:
        """SIGKILL a node."""
        self._processes[number].kill()
        self._processes[number].wait()

    async def start(self, number: int) -> None:
        """Start a killed node again, and wait until it serves."""
        self._processes[number] = self._launch(*self._places[number])
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_TIMEOUT_S
        while True:
            try:
                await asyncio.to_thread(
                    etcdctl, "endpoint", "health", endpoints=(self.endpoints[number],)
                )
            except subprocess.CalledProcessError:
                if loop.time() > deadline:
                    raise
                await asyncio.sleep(0.1)
            else:
                return

    def leader(self) -> str:
        """Return the namespace in which the leader of etcd is.

        Raises:
            CalledProcessError: There is none now.
        """
        etcdctl("endpoint", "health", endpoints=self.endpoints)
        found = json.loads(
            etcdctl("endpoint", "status", "--write-out=json", endpoints=self.endpoints)
        )
        for each in found:
            status = each["Status"]
            if status["leader"] == status["header"]["member_id"]:
                address = each["Endpoint"].rpartition(":")[0]
                return next(name for name, mine in self._places if mine == address)
        raise subprocess.CalledProcessError(1, "etcdctl", "no node says that it leads")

    def _launch(self, name: str, address: str) -> subprocess.Popen[bytes]:
        folder = self._directory / name
        folder.mkdir(parents=True, exist_ok=True)
        cluster = ",".join(f"{each}=http://{its}:{PEER_PORT}" for each, its in self._places)
        client, peer = f"http://{address}:{CLIENT_PORT}", f"http://{address}:{PEER_PORT}"
        words = [
            *inside(name),
            str(etcd_binary()),
            f"--name={name}",
            f"--data-dir={folder / 'data'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={cluster}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        with (folder / "etcd.log").open("ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log)
