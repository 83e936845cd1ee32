"""Settings of topics for their logs, and retention (issue item 1; Kafka's names)."""

import logging
from collections.abc import Mapping

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.topics import (
    MAX_MESSAGE_BYTES,
    RETENTION_BYTES,
    RETENTION_MS,
    SEGMENT_BYTES,
    topic_config_int,
)
from sharemesh.ports.record_log import TopicLogConfig
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions

_log = logging.getLogger(__name__)


def log_config(configs: Mapping[str, str]) -> TopicLogConfig:
    """Return what a topic's stored settings mean for its logs; absent ones have their default."""
    segment_bytes = topic_config_int(configs, SEGMENT_BYTES) if SEGMENT_BYTES in configs else -1
    return TopicLogConfig(
        retention_ms=topic_config_int(configs, RETENTION_MS),
        retention_bytes=topic_config_int(configs, RETENTION_BYTES),
        batch_bytes_max=topic_config_int(configs, MAX_MESSAGE_BYTES),
        segment_bytes=segment_bytes,
    )


class TopicSettings:
    """Keeps the logs of led partitions configured, and applies retention from time to time."""

    def __init__(self, environment: LeaderEnvironment, partitions: LedPartitions) -> None:
        self._environment = environment
        self._partitions = partitions
        self._applied: dict[TopicPartition, tuple[LedPartition, TopicLogConfig]] = {}
        self._planned = False

    def apply(self) -> None:
        """Configure logs whose topic's settings changed, or that were taken over since."""
        if not self._planned:
            self._planned = True
            self._plan()
        applied: dict[TopicPartition, tuple[LedPartition, TopicLogConfig]] = {}
        for led in self._partitions:
            topic = self._environment.view.topic(led.partition.topic_id)
            if topic is None:
                continue
            entry = (led, log_config(topic.configs))
            if self._applied.get(led.partition) != entry:
                led.log.configure(entry[1])
            applied[led.partition] = entry
        self._applied = applied

    async def retain(self) -> None:
        """Move log starts past what is too old or too much; groups go on from there (OFF-17)."""
        for led in self._partitions:
            try:
                await led.log.apply_retention(self._environment.clock.wall_ms())
            except (FencedError, LogFailedError) as ended:
                self._partitions.epoch_ended(led, ended)
            except Exception as error:  # it concerns this log only
                trace = None if isinstance(error, RefusedError | OSError) else error
                _log.warning("retention of %s is put off: %s", led.partition, error, exc_info=trace)

    def _plan(self) -> None:
        environment = self._environment
        interval_ms = environment.settings.retention_check_interval_ms
        environment.alarms.at(environment.clock.now_ms() + interval_ms, self._retain_soon)

    def _retain_soon(self) -> None:
        self._environment.tasks.spawn_heard(self.retain(), self._retained)

    def _retained(self, outcome: BaseException | None) -> None:
        if isinstance(outcome, Exception):
            _log.error("retention failed, and is tried again", exc_info=outcome)
        self._plan()
