"""``sharemesh up`` as a child process, for tests that use a cluster from outside."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30


@dataclass(frozen=True)
class LocalUp:
    """A running cluster."""

    directory: Path
    bootstrap: str
    pid: int
    kafka_bootstrap: str = ""

    def sharemesh(self, *arguments: str, stdin: str | None = None, module: str = "sharemesh.cli"):
        """Run a command against it; the result has returncode, stdout and stderr."""
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "SHAREMESH_BOOTSTRAP": self.bootstrap},
        )


@contextlib.contextmanager
def local_up(directory: Path, *arguments: str, wrapper: Sequence[str] = ()) -> Iterator[LocalUp]:
    """Start a cluster on free ports and stop it in the end; ``wrapper`` must exec the command."""
    child = subprocess.Popen(
        [
            *wrapper,
            sys.executable,
            "-m",
            "sharemesh.cli",
            "up",
            "--plain",
            "--base-port",
            "0",
            "--data-directory",
            str(directory),
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in child.stdout:
            lines.put(line)
        lines.put("")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    seen = []
    try:
        while True:
            line = lines.get(timeout=START_TIMEOUT_S)
            assert line, "the cluster did not start:\n" + "".join(seen)
            seen.append(line)
            if line.startswith("ready bootstrap="):
                break
        kafka = [each.strip() for each in seen if each.startswith("kafka listener bootstrap=")]
        yield LocalUp(
            directory,
            line.strip().partition("=")[2],
            child.pid,
            kafka[0].partition("=")[2] if kafka else "",
        )
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        reader.join(5)
        child.stdout.close()
