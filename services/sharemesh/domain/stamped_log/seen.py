"""How far a stamped log was confirmed, as it is remembered outside of the log (STL-24, STL-25)."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class LostUnits:
    """A log that holds less than was confirmed of it."""

    confirmed: int
    """How many units had been confirmed, at least."""
    confirmed_end: int
    """One past the last offset of those."""
    found: int
    """How many units count in the log that was found."""
    found_end: int
    """Where that log ended when it was found."""


@dataclass(frozen=True, slots=True)
class SeenUnits:
    """What the owners of a shard's log had confirmed.

    Attributes:
        epoch: The shard epoch of the newest of them.
        base: How many units counted when it took the log over.
        base_end: Where the log ended then.
        units: How many units count as far as it confirmed.
        end: One past the last offset of those.
        accepted: How often a loss was accepted.
        loss: What is missing, until that is accepted.
    """

    epoch: int
    base: int
    base_end: int
    units: int
    end: int
    accepted: int = 0
    loss: LostUnits | None = None


def merged(stored: SeenUnits | None, own: SeenUnits) -> SeenUnits:
    """Return what is to be remembered once an owner has told what it knows (STL-25).

    A unit counts only above all that was confirmed before it, so an owner that took over with
    fewer units than one of a lower epoch had confirmed found a log that was cut.
    """
    if stored is None:
        return own
    if own.accepted < stored.accepted:
        return stored  # of before a loss that was accepted
    loss = stored.loss
    if loss is not None:
        if own.epoch >= stored.epoch or own.units <= loss.confirmed:
            return stored
        return replace(stored, loss=replace(loss, confirmed=own.units, confirmed_end=own.end))
    older, newer = (own, stored) if own.epoch < stored.epoch else (stored, own)
    if older.epoch < newer.epoch and newer.base < older.units:
        lost = LostUnits(older.units, older.end, newer.base, newer.base_end)
        return replace(newer, accepted=stored.accepted, loss=lost)
    if own.epoch > stored.epoch:
        return own
    if own.epoch < stored.epoch or own.units <= stored.units:
        return stored
    return replace(stored, units=own.units, end=own.end)


def accepted(stored: SeenUnits) -> SeenUnits:
    """Return what is remembered once the loss is accepted: the log as it was found (STL-27)."""
    loss = stored.loss
    if loss is None:
        return stored
    return replace(stored, accepted=stored.accepted + 1, loss=None)


def lost_words(name: str, loss: LostUnits) -> str:
    """Return what was lost of a shard's log, and what to do, in one sentence."""
    return (
        f"Kafka lost records of shard {name} that it had confirmed: {loss.confirmed} units up to "
        f"offset {loss.confirmed_end} were confirmed, and {loss.found} were left when the log "
        f"ended at offset {loss.found_end}; the shard is not served until an operator gives up "
        f"what is missing, with: sharemesh shards accept-loss {name}"
    )
