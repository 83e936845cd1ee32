"""How far logs on Kafka were confirmed, as the coordination store holds it (STL-24, KRL-18)."""

from collections.abc import Mapping

from sharemesh.cluster.store import records
from sharemesh.domain.seen_partition import SeenPartition
from sharemesh.domain.stamped_log.seen import LostUnits, SeenUnits


def encode_seen(seen: SeenUnits) -> bytes:
    """Return the value of ``seen/<name>``."""
    fields: dict[str, object] = {
        "epoch": seen.epoch,
        "base": seen.base,
        "base_end": seen.base_end,
        "units": seen.units,
        "end": seen.end,
        "accepted": seen.accepted,
    }
    loss = seen.loss
    if loss is not None:
        fields["loss"] = {
            "confirmed": loss.confirmed,
            "confirmed_end": loss.confirmed_end,
            "found": loss.found,
            "found_end": loss.found_end,
        }
    return records.encode(fields)


def decode_seen(value: bytes) -> SeenUnits:
    """Return what is in ``seen/<name>``.

    Raises:
        RecordFormatError: It cannot be read.
    """
    fields = records.decode(value)
    return SeenUnits(
        records.integer(fields, "epoch"),
        records.integer(fields, "base"),
        records.integer(fields, "base_end"),
        records.integer(fields, "units"),
        records.integer(fields, "end"),
        records.integer(fields, "accepted", 0),
        _loss(fields.get("loss")),
    )


def encode_damage(why: str) -> bytes:
    """Return the value of ``damaged/<name>``."""
    return records.encode({"why": why})


def decode_damage(value: bytes) -> str:
    """Return what is in ``damaged/<name>``.

    Raises:
        RecordFormatError: It cannot be read.
    """
    return records.text(records.decode(value), "why")


def _loss(found: object) -> LostUnits | None:
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise records.RecordFormatError(f"field 'loss' is {found!r}, not an object")
    return LostUnits(
        records.integer(found, "confirmed"),
        records.integer(found, "confirmed_end"),
        records.integer(found, "found"),
        records.integer(found, "found_end"),
    )


def encode_partition(seen: SeenPartition) -> bytes:
    """Return the value of ``followed/<topic id>/<partition>``."""
    fields: dict[str, object] = {
        "kafka_epoch": seen.kafka_epoch,
        "start": seen.start,
        "end": seen.end,
        "epoch_starts": [list(each) for each in seen.epoch_starts],
    }
    if seen.lost is not None:
        fields |= {"lost_from": seen.lost[0], "lost_to": seen.lost[1]}
    return records.encode(fields)


def decode_partition(value: bytes) -> SeenPartition:
    """Return what is in ``followed/<topic id>/<partition>``.

    Raises:
        RecordFormatError: It cannot be read.
    """
    fields = records.decode(value)
    lost_to = records.integer(fields, "lost_to", -1)
    return SeenPartition(
        records.integer(fields, "kafka_epoch"),
        records.integer(fields, "start"),
        records.integer(fields, "end"),
        None if lost_to < 0 else (records.integer(fields, "lost_from"), lost_to),
        _epoch_starts(fields.get("epoch_starts", [])),
    )


def _epoch_starts(found: object) -> tuple[tuple[int, int], ...]:
    """Return what is there; nothing where another build wrote it otherwise."""
    starts = []
    for each in found if isinstance(found, list) else ():
        match each:
            case [int() as epoch, int() as first]:
                starts.append((epoch, first))
            case _:
                return ()
    return tuple(starts)
