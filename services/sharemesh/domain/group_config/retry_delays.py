"""How long released records wait before they are delivered again (spec RTY-4, RTY-5, RTY-6)."""

import re
from dataclasses import dataclass

from sharemesh.domain.setting_values import SettingValueError

RELEASE_DELAY_MAX_MS = 86_400_000
"""The longest delay of a release: a day (RTY-1)."""

SCHEDULE_MAX = 32
"""Most delays in a schedule."""

_DELAY = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d)", re.ASCII)
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class RetryDelays:
    """The back-off of a group; without any, released records are available at once as in Kafka."""

    backoff_ms: int = 0  # share.retry.backoff.ms
    max_ms: int = 600_000  # share.retry.backoff.max.ms
    multiplier: float = 2.0  # share.retry.backoff.multiplier
    jitter: float = 0.2  # share.retry.backoff.jitter
    on_timeout: bool = False  # share.retry.backoff.on.timeout
    schedule_ms: tuple[int, ...] = ()  # share.retry.schedule

    @property
    def is_set(self) -> bool:
        """Whether any record waits at all."""
        return self.backoff_ms > 0 or bool(self.schedule_ms)

    def after(self, delivery_count: int, draw: float) -> int:
        """Return the delay in ms after this delivery.

        Args:
            delivery_count: 1 or more.
            draw: From -1 to 1: to which side, and by how much of the jitter (RTY-4).
        """
        if self.schedule_ms:
            plain_ms: float = self.schedule_ms[min(delivery_count, len(self.schedule_ms)) - 1]
        else:
            plain_ms = min(self._grown_ms(delivery_count), self.max_ms)
        delay_ms = round(plain_ms * (1 + self.jitter * draw))
        return max(0, min(delay_ms, RELEASE_DELAY_MAX_MS))

    def _grown_ms(self, delivery_count: int) -> float:
        """Return the back-off without its upper bound, which no overflow gets past."""
        grown_ms: float = self.backoff_ms
        for _ in range(delivery_count - 1):
            if grown_ms >= self.max_ms or self.multiplier <= 1:
                break
            grown_ms *= self.multiplier
        return grown_ms


NO_DELAYS = RetryDelays()
"""As in Kafka."""


def parse_schedule(text: str) -> tuple[int, ...]:
    """Return the delays of ``1s,10s,1m,10m`` in ms; an empty text has none.

    Raises:
        SettingValueError: It has another form, is too long, or a delay is out of bounds.
    """
    parts = [part.strip().lower() for part in text.split(",")] if text.strip() else []
    if len(parts) > SCHEDULE_MAX:
        raise SettingValueError(f"lists {len(parts)} delays; list at most {SCHEDULE_MAX}")
    return tuple(map(_delay_ms, parts))


def spelled_schedule(delays_ms: tuple[int, ...]) -> str:
    """Return the one spelling of a schedule."""
    return ",".join(map(_spelled, delays_ms))


def _delay_ms(part: str) -> int:
    found = _DELAY.fullmatch(part)
    if found is None:
        raise SettingValueError(f"has {part!r}; give delays such as 1s,10s,1m,10m (ms, s, m, h, d)")
    delay_ms = int(found[1]) * _UNITS[found[2]]
    if not 1 <= delay_ms <= RELEASE_DELAY_MAX_MS:
        raise SettingValueError(f"has {part!r}; each delay is 1ms to 1d")
    return delay_ms


def _spelled(delay_ms: int) -> str:
    unit = next(name for name in ("d", "h", "m", "s", "ms") if delay_ms % _UNITS[name] == 0)
    return f"{delay_ms // _UNITS[unit]}{unit}"
