"""What the audit log says of one call, and the line that it becomes (AUD-5)."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from sharemesh.domain.printable import escaped

RESOURCES_MAX = 50
"""Resources of one event; how many more there were is a number."""

RESOURCES_BYTES_MAX = 8 * 1024
"""Of the resources of one event as they are written; with its other texts below 16 KiB."""

TEXT_MAX = 256
"""Characters of one text."""

LOG = "audit"
"""Value of the first field of each line: tells them from other lines on the same stdout."""


class Kind(StrEnum):
    """Why an event is recorded."""

    CHANGE = "change"
    LOOK = "look"
    REFUSAL = "refusal"


class AuditDecision(StrEnum):
    """What came of it."""

    DONE = "done"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Resource:
    """What an event is about; ``change`` says what was to become of it."""

    type: str
    name: str
    change: str = ""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One event; texts are cut already.

    Attributes:
        kind: Why it is recorded.
        principal: Who called; empty if that could not be established.
        peer: Address of the connection.
        rpc: ``Service/Method``; empty for what was folded over several.
        decision: What came of it.
        operation: The right that was missing.
        resources: What it is about, at most ``RESOURCES_MAX``.
        more: How many resources there were besides.
        error: Name of the error.
        error_code: Kafka's number of the error; 0 if it is gRPC's or none.
        trace_id: Trace of the call in hexadecimal digits.
    """

    kind: Kind
    principal: str
    peer: str
    rpc: str
    decision: AuditDecision
    operation: str = ""
    resources: tuple[Resource, ...] = ()
    more: int = 0
    error: str = ""
    error_code: int = 0
    trace_id: str = ""

    @property
    def is_change(self) -> bool:
        """Whether something changed, or may have: kept apart and never folded (AUD-6, AUD-7)."""
        changed = self.decision in (AuditDecision.DONE, AuditDecision.UNKNOWN)
        return changed and self.kind is Kind.CHANGE

    @property
    def is_refusal(self) -> bool:
        """Whether it is one of many that a caller without rights can cause."""
        return self.kind is Kind.REFUSAL


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often an event came again without a line of its own, and when."""

    count: int
    first_ms: int
    last_ms: int


def cut(text: str) -> str:
    """Return the text, or its beginning if it is too long."""
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


def resource(kind: str, name: str, change: str = "") -> Resource:
    """Return a resource, its texts cut."""
    return Resource(kind, cut(name), cut(change))


def bounded(resources: Iterable[Resource]) -> tuple[Resource, ...]:
    """Return the first resources, as many as one event has: one at least, if there is one."""
    kept: list[Resource] = []
    size = 0
    for each in islice(resources, RESOURCES_MAX):
        size += len(_encoded(_fields_of(each)))
        if kept and size > RESOURCES_BYTES_MAX:
            break
        kept.append(each)
    return tuple(kept)


def line(event: AuditEvent, node: str, at_ms: int, repeats: Repeats | None = None) -> bytes:
    """Return the event as one line with its end."""
    fields: dict[str, object] = {
        "log": LOG,
        "time": utc(at_ms),
        "node": node,
        "kind": event.kind,
        "decision": event.decision,
        "principal": event.principal,
        "peer": event.peer,
        "rpc": event.rpc,
    }
    if event.operation:
        fields["operation"] = event.operation
    fields["resources"] = [_fields_of(each) for each in event.resources]
    if event.more:
        fields["more_resources"] = event.more
    if event.error:
        fields |= {"error": event.error, "error_code": event.error_code}
    if event.trace_id:
        fields["trace_id"] = event.trace_id
    if repeats is not None:
        fields |= {
            "repeated": repeats.count,
            "first": utc(repeats.first_ms),
            "last": utc(repeats.last_ms),
        }
    return _encoded(fields) + b"\n"


def utc(at_ms: int) -> str:
    """Return wall time as text that sorts like the times."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms // 1_000))
    return f"{whole}.{at_ms % 1_000:03d}Z"


def _fields_of(resource: Resource) -> dict[str, str]:
    found = {"type": resource.type, "name": resource.name}
    return found | {"change": resource.change} if resource.change else found


def _encoded(fields: Mapping[str, object]) -> bytes:
    text = escaped(json.dumps(fields, ensure_ascii=False))
    return text.encode("utf-8", "backslashreplace")
