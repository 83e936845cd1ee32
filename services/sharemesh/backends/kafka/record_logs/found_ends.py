"""What the leader of a partition answers about start, end and leader epochs of its log."""

import asyncio
from dataclasses import dataclass

from sharemesh.backends.kafka.record_logs.epoch_starts import EPOCHS_MAX
from sharemesh.ports.brokers import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    BrokerPartition,
    Brokers,
    BrokerUnreachableError,
    FoundOffset,
    Isolation,
    UnsupportedRequestError,
)


@dataclass(frozen=True, slots=True)
class FoundEnds:
    """What a leader answers to three ListOffsets."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class KnownEpochs:
    """What is known of a partition before its leader is asked.

    Attributes:
        epoch: The newest epoch under which its ends were named; -1: none.
        end_offset: One past what was named under it.
        starts: Where epochs begin: epoch and first offset.
    """

    epoch: int = -1
    end_offset: int = 0
    starts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FoundEpochs:
    """What a leader tells of an epoch that was known before, and of those since.

    Attributes:
        epoch: The largest one at most the known one that its log has.
        end_offset: Where that one ends there.
        starts: First offsets of epochs whose first offset was not known, by epoch.
    """

    epoch: int
    end_offset: int
    starts: dict[int, int]


async def find_ends(brokers: Brokers, where: BrokerPartition, known_epoch: int = -1) -> FoundEnds:
    """Ask where a partition starts and ends.

    Raises:
        BrokerUnreachableError: Also if the broker leads under an epoch below ``known_epoch``.
        BrokerRefusedError, UnsupportedRequestError: As the brokers say.
    """
    newest: FoundOffset = await brokers.list_offset(where, LATEST_TIMESTAMP)
    if 0 <= newest.leader_epoch < known_epoch:
        raise BrokerUnreachableError(
            f"the broker that answers was deposed: it leads under epoch {newest.leader_epoch}, and "
            f"{known_epoch} is known"
        )
    stable, start = await asyncio.gather(
        brokers.list_offset(where, LATEST_TIMESTAMP, isolation=Isolation.READ_COMMITTED),
        brokers.list_offset(where, EARLIEST_TIMESTAMP),
    )
    return FoundEnds(start.offset, newest.offset, stable.offset, newest.leader_epoch)


async def find_epochs(
    brokers: Brokers, where: BrokerPartition, known: KnownEpochs
) -> tuple[FoundEnds, FoundEpochs | None]:
    """Ask where a partition ends, and what its log has of the epochs that are known (KRL-8).

    Where epochs begin is answered under the epoch of the ends. None: this cluster does not tell, or
    knows no such epoch.

    Args:
        brokers: The cluster.
        where: The partition.
        known: What is known of it.

    Raises:
        BrokerUnreachableError: Also if another broker began to lead meanwhile.
        BrokerRefusedError: As the brokers say.
    """
    found = await find_ends(brokers, where, known.epoch)
    try:
        epochs = await _epochs(brokers, where, known, found)
    except UnsupportedRequestError:
        return found, None
    if epochs is not None and (epochs.starts or 0 <= epochs.end_offset < known.end_offset):
        again = await brokers.list_offset(where, LATEST_TIMESTAMP)
        if again.leader_epoch != found.leader_epoch:
            raise BrokerUnreachableError("another broker began to lead it meanwhile")
    return found, epochs


async def _epochs(
    brokers: Brokers, where: BrokerPartition, known: KnownEpochs, found: FoundEnds
) -> FoundEpochs | None:
    epoch = end_offset = -1
    if known.epoch >= 0:
        epoch, end_offset = await brokers.end_offset_of_epoch(where, known.epoch)
        if end_offset < 0:
            return None
    common = {each for each, _ in known.starts if each <= epoch}
    starts: dict[int, int] = {}
    asked, before = found.leader_epoch, -1
    while asked > 0 and asked not in common and len(starts) < EPOCHS_MAX:
        if asked - 1 == known.epoch:
            below, first = epoch, end_offset
        else:
            below, first = await brokers.end_offset_of_epoch(where, asked - 1)
        if first < 0 or first == before:  # nothing older is known, or all of it is deleted
            break
        starts[asked] = before = first
        if first <= found.log_start_offset:
            break
        asked = below
    return FoundEpochs(epoch, end_offset, starts)
