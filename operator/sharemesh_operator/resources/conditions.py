"""Conditions: what the operator says about an object, in Kubernetes' form."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from sharemesh_operator.resources.names import KubeObject

MESSAGE_CHARS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Condition:
    """One statement; ``status`` None is Unknown. The message says what to do where it can."""

    kind: str
    status: bool | None
    reason: str
    message: str = ""

    @classmethod
    def true(cls, kind: str, reason: str, message: str = "") -> Self:
        """Return a condition that holds."""
        return cls(kind, status=True, reason=reason, message=message)

    @classmethod
    def false(cls, kind: str, reason: str, message: str = "") -> Self:
        """Return a condition that does not hold."""
        return cls(kind, status=False, reason=reason, message=message)

    @classmethod
    def unknown(cls, kind: str, reason: str, message: str = "") -> Self:
        """Return a condition of which nothing is known."""
        return cls(kind, status=None, reason=reason, message=message)


def merged(
    old: Sequence[KubeObject], new: Iterable[Condition], *, generation: int, now: str
) -> list[KubeObject]:
    """Return the conditions for ``status``; the time changes only where the status did.

    Conditions that ``new`` does not speak of are dropped. ``now`` is RFC 3339.
    """
    known = {each.get("type"): each for each in old}
    found = []
    for condition in new:
        status = {True: "True", False: "False", None: "Unknown"}[condition.status]
        before = known.get(condition.kind, {})
        since = before.get("lastTransitionTime") if before.get("status") == status else None
        found.append(
            {
                "type": condition.kind,
                "status": status,
                "observedGeneration": generation,
                "lastTransitionTime": since or now,
                "reason": condition.reason,
                "message": condition.message[:MESSAGE_CHARS_MAX],
            }
        )
    return found


def flipped(old: Sequence[KubeObject], new: Sequence[KubeObject]) -> bool:
    """Return whether a condition came, went, or changed its status or reason."""
    return {_face(each) for each in old} != {_face(each) for each in new}


def find(conditions: Sequence[KubeObject], kind: str) -> KubeObject | None:
    """Return a condition by its type."""
    return next((each for each in conditions if each.get("type") == kind), None)


def _face(condition: KubeObject) -> tuple[object, object, object]:
    return condition.get("type"), condition.get("status"), condition.get("reason")
