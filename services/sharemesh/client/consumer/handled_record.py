"""A record that ``run`` has: what is known of its lock, and how far it has come."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sharemesh.client.consumer.deliveries import AcquiredIn
from sharemesh.client.records import ConsumerRecord, TopicIdPartition


@dataclass(slots=True, eq=False)
class HandledRecord:
    """A record that waits for a handler, is in one, or failed and is kept for a while."""

    record: ConsumerRecord
    acquired_in: AcquiredIn
    lock_timeout_ms: int
    renewed_ms: int
    since_ms: int
    kept: bool = False
    is_outage: bool = False  # it failed of what the breaker counts
    is_tried_again: bool = False  # although it failed before: no others came
    is_reported_long: bool = False
    is_lost: bool = False
    held_until_ms: int = 0  # its lock holds so long, as far as leaders have confirmed
    task: "asyncio.Task[None] | None" = None
    late: "asyncio.Future[Any] | None" = None  # its handler, past its deadline on a thread

    @property
    def key(self) -> tuple[TopicIdPartition, int]:
        """Its partition and offset."""
        return self.acquired_in[0], self.record.offset

    @property
    def is_session_open(self) -> bool:
        """Whether the session that acquired it can still take acknowledgements."""
        source, route, leader_epoch = self.acquired_in
        return route.is_open_for(source, leader_epoch)


def confirm_renewals(renewed: Iterable[HandledRecord], sent_ms: int) -> None:
    """Note that leaders have renewed these, as they were asked at ``sent_ms``."""
    for active in renewed:
        active.held_until_ms = max(active.held_until_ms, sent_ms + active.lock_timeout_ms)
