"""A real PostgreSQL on a socket of its own: Debian's, which is installed where there is none.

It dies with the test process (PDEATHSIG) and is stopped by its pid. Statements go through ``psql``,
one process a session, so that no driver is needed.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.debian_package import found_or_installed
from tests.etcd_server import die_with_parent

_BEGIN_TIMEOUT_S = 60
_END = "--end--"


def programs() -> Path:
    """Return the directory of PostgreSQL's programs; installs the package as root if need be."""
    return found_or_installed("postgresql", _newest)


def _newest() -> Path | None:
    versions = [each.parent for each in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if versions:
        return max(versions, key=lambda each: float(each.parent.name))
    program = shutil.which("initdb")
    return Path(program).parent if program and shutil.which("psql") else None


class PsqlSession:
    """One session of ``psql``; threads take turns."""

    def __init__(self, socket_directory: str) -> None:
        psql = str(programs() / "psql")
        command = [psql, "-qAtX", "-h", socket_directory, "-U", "postgres", "-d", "postgres"]
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._turn = threading.Lock()

    def __call__(self, statement: str) -> list[str]:
        """Return the rows of one statement, columns with ``|`` between them."""
        with self._turn:
            self._child.stdin.write(f"{statement};\n\\echo {_END}\n")
            self._child.stdin.flush()
            rows = []
            for line in self._child.stdout:
                if line.rstrip("\n") == _END:
                    return rows
                rows.append(line.rstrip("\n"))
        raise AssertionError("psql ended:\n" + "\n".join(rows))

    def close(self) -> None:
        self._child.stdin.close()
        self._child.stdout.close()
        self._child.wait(_BEGIN_TIMEOUT_S)


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Start a server; yields the directory of its socket. It refuses to be root, so it is not."""
    binaries = programs()
    user = "nobody" if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="sharemesh-postgres-") as directory:
        if user is not None:
            shutil.chown(directory, user)
        data = Path(directory) / "data"
        settings = {"user": user, "cwd": directory, "stdout": subprocess.DEVNULL}
        init = [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(init, check=True, timeout=_BEGIN_TIMEOUT_S, **settings)
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", directory]
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, *options],
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509
            **settings,
        )
        try:
            ready = [binaries / "pg_isready", "-q", "-h", directory, "-t", "1"]
            for _ in range(_BEGIN_TIMEOUT_S * 10):
                if subprocess.run(ready, check=False).returncode == 0:
                    break
                assert server.poll() is None, "postgres ended"
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(0.1)
            yield directory
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(_BEGIN_TIMEOUT_S)
