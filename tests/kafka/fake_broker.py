"""kfake of franz-go: a second implementation of the brokers, in memory, built with Go.

It has topic ids, leader epochs, fetch sessions and logins; it does not replicate.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence

from tests.etcd_server import die_with_parent
from tests.go_tools import GOBIN, environment, run
from tests.kafka.jars import HERE


def kfake() -> str:
    """Build kfake if it or its module is newer than the program; return the program."""
    source, program = HERE / "kfake", GOBIN / "kfake"
    newest = max(path.stat().st_mtime for path in source.iterdir())
    if not program.exists() or program.stat().st_mtime < newest:
        run(["go", "build", "-C", str(source), "-o", str(program), "."], environment())
    return str(program)


@contextlib.contextmanager
def fake_brokers(count: int = 1, *arguments: str) -> Iterator[str]:
    """Start a cluster on free ports; yield its addresses, separated by commas."""
    command: Sequence[str] = (kfake(), f"-brokers={count}", *arguments)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
    ) as process:
        assert process.stdout is not None
        try:
            addresses = process.stdout.readline().strip()
            assert addresses, f"kfake did not start: {process.wait()}"
            yield addresses
        finally:
            process.kill()
