"""A real Redis on a socket of its own: Debian's, which is installed where there is none.

Of Debian's packages ``redis-server`` begins a service for all; ``redis-tools`` has the same
program, which looks at the name that it is called by.
"""

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.debian_package import found_or_installed
from tests.etcd_server import die_with_parent

_BEGIN_TIMEOUT_S = 30


class RedisClient:
    """``eval`` and commands over one connection, as the usual client has them."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._answers = self._socket.makefile("rb")

    def eval(self, script: str, keys: int, *words: str) -> Any:
        """Run a script of Redis."""
        return self.command("EVAL", script, str(keys), *words)

    def command(self, *words: str) -> Any:
        """Send one command; return its answer."""
        parts = [f"*{len(words)}\r\n".encode()]
        for word in words:
            said = word.encode()
            parts.append(f"${len(said)}\r\n".encode() + said + b"\r\n")
        self._socket.sendall(b"".join(parts))
        line = self._answers.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        assert kind != b"-", rest
        if kind == b":":
            return int(rest)
        if kind != b"$":
            return rest
        return None if rest == b"-1" else self._answers.read(int(rest) + 2)[:-2]

    def close(self) -> None:
        """Close the connection."""
        self._answers.close()
        self._socket.close()


def _program() -> str | None:
    return shutil.which("redis-server") or shutil.which("redis-check-rdb")


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Start a server; yields the path of its socket. It dies with this process."""
    program = found_or_installed("redis-tools", _program)
    with tempfile.TemporaryDirectory(prefix="sharemesh-redis-") as directory:
        path = str(Path(directory) / "socket")
        command = [
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            path,
            "--save",
            "",
            "--dir",
            directory,
        ]
        server = subprocess.Popen(
            command,
            executable=program,
            stdout=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509
        )
        try:
            for _ in range(_BEGIN_TIMEOUT_S * 10):
                if Path(path).exists():
                    break
                assert server.poll() is None, "redis-server ended"
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(0.1)
            yield path
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(_BEGIN_TIMEOUT_S)
