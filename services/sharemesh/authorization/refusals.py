"""Refusals and grants, from wherever in a call they are decided to the audit log (AUD-2)."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from sharemesh.domain.errors import BoundReachedError, ErrorCode, RefusedError


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a principal was refused; ``operation`` is empty where a bound was met."""

    principal: str
    error: ErrorCode
    operation: str = ""
    resource_type: str = ""
    name: str = ""


class Hearer(Protocol):
    """One call that is being answered; ``granted``: it had a right that it asked for."""

    granted: bool

    def refused(self, refusal: Refusal) -> None:
        """Note a refusal within this call; must not raise."""
        ...


HEARER: ContextVar[Hearer | None] = ContextVar("hearer of refusals", default=None)
"""Tasks that a call begins inherit it."""


def hear(refusal: Refusal) -> None:
    """Tell the call that is being answered here, if refusals are recorded."""
    hearer = HEARER.get()
    if hearer is not None:
        hearer.refused(refusal)


def hear_granted() -> None:
    """Tell it that a right was granted: from here on something may be changed (AUD-4)."""
    hearer = HEARER.get()
    if hearer is not None:
        hearer.granted = True


def hear_bound(error: RefusedError, principal: str) -> None:
    """Tell it of an answer that is a refusal, if what the caller met is a bound (AUD-3)."""
    if isinstance(error, BoundReachedError):
        hear(Refusal(principal, error.error))
