"""The leader aborts transactions that have no end, so that groups proceed (BND-11)."""

import logging

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions

_log = logging.getLogger(__name__)


class TransactionTimeouts:
    """Checks all led partitions at intervals, one round after the other."""

    def __init__(self, environment: LeaderEnvironment, partitions: LedPartitions) -> None:
        self._environment = environment
        self._partitions = partitions
        self._put_off: set[TopicPartition] = set()  # logged already

    def begin(self) -> None:
        """Plan the first round; each one plans the next."""
        environment = self._environment
        interval_ms = environment.settings.transaction_check_interval_ms
        environment.alarms.at(environment.clock.now_ms() + interval_ms, self._look_soon)

    def _look_soon(self) -> None:
        self._environment.tasks.spawn_heard(self.look(), self._looked)

    def _looked(self, outcome: BaseException | None) -> None:
        if isinstance(outcome, Exception):
            _log.error("the search for old transactions failed, is repeated", exc_info=outcome)
        self.begin()

    async def look(self) -> None:
        """Abort what is open for too long in the partitions that are led here."""
        for led in list(self._partitions):
            if not led.serves_log or led.log.damage is not None:
                continue  # nothing may be written there
            try:
                await self._abort(led)
            except (FencedError, LogFailedError) as ended:
                self._partitions.epoch_ended(led, ended)
            except Exception as error:  # it concerns this log only
                self._tell(led.partition, error)
            else:
                self._put_off.discard(led.partition)

    async def _abort(self, led: LedPartition) -> None:
        open_ms = self._environment.settings.max_transaction_ms
        aborted = 0
        while count := await led.log.abort_transactions(open_ms):
            aborted += count
        if aborted:
            _log.warning(
                "%s: %d transactions were open for %d ms without an end and are aborted; their "
                "producers get INVALID_PRODUCER_EPOCH for what they still send and have to "
                "initialize again",
                led.partition,
                aborted,
                open_ms,
            )

    def _tell(self, partition: TopicPartition, error: Exception) -> None:
        if partition in self._put_off:
            return
        self._put_off.add(partition)
        trace = None if isinstance(error, RefusedError | OSError) else error
        _log.warning(
            "old transactions of %s are not aborted yet, which is tried again: %s",
            partition,
            error,
            exc_info=trace,
        )
