"""Runs of offsets in one delivery state, as they are persisted."""

from dataclasses import dataclass

from sharemesh.domain.delivery_state import Cause, DeliveryState


@dataclass(frozen=True, slots=True, order=True)
class StateBatch:
    """Offsets ``first_offset..last_offset``, both included (spec SC-21); never ACQUIRED.

    ``cause`` says what brought them there; it takes no part in combining.
    """

    first_offset: int
    last_offset: int
    delivery_state: DeliveryState
    delivery_count: int
    cause: Cause = Cause.UNSPECIFIED
