"""What a role process tells its parent, one JSON line each, on a descriptor it inherited."""

import json
import os
from dataclasses import dataclass
from enum import StrEnum

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
