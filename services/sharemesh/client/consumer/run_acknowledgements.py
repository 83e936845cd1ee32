"""What ``run`` says of its records: acknowledgements of one turn together, and give-backs."""

import asyncio
from collections.abc import Iterable

from sharemesh.client.consumer.acknowledgement_sender import AcknowledgementSender
from sharemesh.client.consumer.deliveries import (
    AcquiredIn,
    PartitionAcknowledgements,
    ReleaseTerms,
)
from sharemesh.client.consumer.handled_record import HandledRecord
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.ports.clock import Clock


class RunAcknowledgements:
    """Sends through ``sender``; what may be sent again is so for at most ``limit_ms``."""

    def __init__(self, sender: AcknowledgementSender, clock: Clock, limit_ms: int) -> None:
        self._sender = sender
        self._clock = clock
        self._limit_ms = limit_ms
        self._said: dict[AcquiredIn, dict[int, AcknowledgeType]] = {}
        self._flushing: asyncio.Handle | None = None

    def say(self, where: AcquiredIn, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge, together with all that is decided in this turn of the event loop."""
        self._said.setdefault(where, {})[offset] = kind
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Send what was said in this turn now."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        said, self._said = self._said, {}
        if not said:
            return
        deadline_ms = self._clock.now_ms() + self._limit_ms
        self._sender.send(
            [
                PartitionAcknowledgements(*where, types, deadline_ms=deadline_ms)
                for where, types in said.items()
            ]
        )

    def give_back(self, given: Iterable[HandledRecord], delay_ms: int) -> None:
        """Release records whose delivery does not count (spec HBK-20, CL-43)."""
        unseen: dict[AcquiredIn, dict[int, int]] = {}
        for active in given:
            if not active.is_session_open:
                continue  # its leader released it
            counts = unseen.setdefault(active.acquired_in, {})
            counts[active.record.offset] = active.record.delivery_count
        if not unseen:
            return
        if not delay_ms:
            self._sender.send(
                [
                    PartitionAcknowledgements(
                        *where, dict.fromkeys(counts, _RELEASE), unreported=True, uncounted=counts
                    )
                    for where, counts in unseen.items()
                ]
            )
            return
        deadline_ms = self._clock.now_ms() + self._limit_ms  # it is written (HND-1)
        self._sender.send(
            [
                PartitionAcknowledgements(
                    *where,
                    dict.fromkeys(counts, _RELEASE),
                    deadline_ms=deadline_ms,
                    unreported=True,
                    terms={each: ReleaseTerms(delay_ms, count) for each, count in counts.items()},
                )
                for where, counts in unseen.items()
            ]
        )


_RELEASE = AcknowledgeType.RELEASE
