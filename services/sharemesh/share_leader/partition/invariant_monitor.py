"""The machine's own invariants, looked at in production: one share partition after the other."""

import logging
from collections.abc import Iterator

from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.partition.led_partitions import LedPartitions
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner

SELF_CHECK_MS = 1_000
"""Between two looks; a look takes well under a millisecond for batches in one piece."""

IN_FLIGHT_MAX = 4_000
"""More offsets in flight are passed over: kept one by one, a look would hold the loop too long."""

_log = logging.getLogger(__name__)


class InvariantMonitor:
    """Counts looks and broken invariants; the definitions are those of the property tests."""

    def __init__(self, environment: LeaderEnvironment, partitions: LedPartitions) -> None:
        self._environment = environment
        self._partitions = partitions
        self._turn = self._active()

    def begin(self) -> None:
        """Look at the next share partition ``SELF_CHECK_MS`` from now, and so on for ever."""
        self._environment.alarms.every(SELF_CHECK_MS, self._check_next)

    def _check_next(self) -> None:
        shell = next(self._turn, None)
        if shell is None:
            self._turn = self._active()
            shell = next(self._turn, None)
        if shell is not None:
            self._check(shell)

    def _active(self) -> Iterator[SharePartitionRunner]:
        """Go through what is led while it changes; who came meanwhile has the next turn."""
        for led in self._partitions:
            for shell in list(led.shares.values()):
                if shell.phase is Phase.ACTIVE and shell.machine.in_flight_count <= IN_FLIGHT_MAX:
                    yield shell

    def _check(self, shell: SharePartitionRunner) -> None:
        counters = self._environment.counters
        counters.invariants_checked += 1
        try:
            shell.machine.validate()
        except Exception as error:  # in an impossible state the look itself may stumble
            counters.invariants_broken += 1
            key = shell.key
            _log.error(
                "share partition %s:%s-%d is in a state that no rule allows: %r; this is a bug of "
                "sharemesh: report this line and the answer of `sharemesh explain`, and restart "
                "this process if records of the partition are not delivered",
                key.group_id,
                key.topic_id.hex(),
                key.partition,
                error,
            )
