"""Parent and child process: the command line there, and reports back, one JSON line each."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from sharemesh.ports.cluster import Role
from sharemesh.serve.settings.settings import ServeSettings, names_of

MAX_LINE_BYTES = 16 * 1024


class ReportKind(StrEnum):
    """What happened."""

    LEASE = "lease"  # before the lease is used
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Report:
    """One line; fields that a kind does not have are empty."""

    kind: ReportKind
    lease_id: int = 0
    node_id: str = ""
    host: str = ""
    port: int = 0
    health_port: int = 0
    metrics_port: int = 0
    kafka: str = ""
    pid: int = 0
    exit_code: int = 0
    message: str = ""

    def line(self) -> bytes:
        """Return the line with its end."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        shown = {name: value for name, value in fields.items() if value not in ("", 0)}
        return json.dumps(shown).encode() + b"\n"


def parse_report(line: bytes) -> Report | None:
    """Return what a line says, or None if it is not ours."""
    try:
        fields = json.loads(line)
        kind = ReportKind(fields.pop("kind"))
        known = {name: value for name, value in fields.items() if name in Report.__slots__}
        return Report(kind, **known)
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


class Reporter:
    """The child's end. Without a descriptor, readiness goes to standard output."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        if descriptor is not None:
            os.set_inheritable(descriptor, False)  # noqa: FBT003

    def tell(self, report: Report) -> None:
        """Write one line; a parent that has gone does not matter here."""
        if self._descriptor is None:
            if report.kind is ReportKind.READY:
                os.write(1, report.line())
            return
        try:
            os.write(self._descriptor, report.line())
        except OSError:
            self._descriptor = None


def role_command(
    settings: ServeSettings,
    *,
    role: Role,
    node_id: str,
    host: str,
    port: int,
    etcd_endpoints: Sequence[str],
    descriptor: int,
) -> Sequence[str]:
    """Return the command that runs one role; it reports on ``descriptor`` and dies with us."""
    mine = replace(
        settings,
        role=str(role),
        node_id=node_id,
        data_directory=settings.data_directory.resolve(),
        etcd_endpoints=tuple(etcd_endpoints),
        listen_host=host,
        listen_port=port,
        advertised_host=settings.advertised_host,
    )
    return child_command(mine, descriptor)


def child_command(settings: ServeSettings, descriptor: int) -> Sequence[str]:
    """Return the command of a child with exactly these settings."""
    return (
        sys.executable,
        "-m",
        "sharemesh.serve",
        "--parent-pid",
        str(os.getpid()),
        "--report-descriptor",
        str(descriptor),
        *_flags(settings),
    )


def _flags(settings: ServeSettings) -> list[str]:
    flags = []
    for name in names_of(ServeSettings):
        value = getattr(settings, name)
        if value in (None, "", ()):
            continue
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        flags.append(f"--{name.replace('_', '-')}={text}")
    for name, value in settings.configs.items():
        flags += ["--set", f"{name}={value}"]
    return flags
