"""Counters, gauges and histograms in memory: an addition costs no more than an addition."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from enum import StrEnum
from math import inf

Labels = tuple[str, ...]
Observation = tuple[Labels, float]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Upper bounds of durations, inclusive, 1 ms to 60 s."""
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000)
PERCENT = (0, 10, 25, 50, 75, 90, 99, 100)

OTHER = "other"
"""Label value of all series beyond the bound of a metric."""


class InstrumentKind(StrEnum):
    """What a metric is, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its OpenTelemetry name and unit, what it says, and the names of its labels.

    ``bounds`` are the inclusive upper bounds of a histogram's buckets.
    """

    name: str
    kind: InstrumentKind
    unit: str
    says: str
    labels: Labels = ()
    bounds: tuple[float, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """The name as Prometheus' rules spell it: unit and ``_total`` behind."""
        name = self.name.replace(".", "_")
        suffix = {"s": "_seconds", "By": "_bytes", "%": "_percent"}.get(self.unit, "")
        if not name.endswith(suffix):
            name += suffix
        return f"{name}_total" if self.kind is InstrumentKind.COUNTER else name


@dataclass(slots=True, eq=False)
class Counter:
    """One series that only grows."""

    value: int = 0

    def add(self, amount: int = 1) -> None:
        """Add ``amount``, 0 or more."""
        self.value += amount


class Histogram:
    """One series of measured values; ``counts`` has one entry more than there are bounds."""

    __slots__ = ("bounds", "count", "counts", "high", "low", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.count = 0
        self.low = inf
        self.high = -inf

    def record(self, value: float, times: int = 1) -> None:
        """Count ``value``, ``times`` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times
        self.count += times
        self.low = min(self.low, value)
        self.high = max(self.high, value)


@dataclass(frozen=True, slots=True)
class Reading:
    """All series of one metric at one moment."""

    metric: Metric
    values: tuple[Observation, ...] = ()
    histograms: tuple[tuple[Labels, Histogram], ...] = ()


class Registry:
    """The metrics of one process; series of one metric are bounded by ``series_max``.

    Series beyond the bound are counted together under the label value ``other``.
    """

    def __init__(self, *, series_max: int = 2_000) -> None:
        self.series_max = series_max
        self.overflows = 0
        self._counters: dict[Metric, dict[Labels, Counter]] = {}
        self._histograms: dict[Metric, dict[Labels, Histogram]] = {}
        self._observed: dict[Metric, list[Callable[[], Iterable[Observation]]]] = {}

    def counter(self, metric: Metric, *labels: str) -> Counter:
        """Return the series with these label values; keep it, asking costs a look-up."""
        series = self._counters.setdefault(metric, {})
        found = series.get(labels)
        if found is None:
            labels = self._bounded(metric, series, labels)
            found = series.setdefault(labels, Counter())
        return found

    def histogram(self, metric: Metric, *labels: str) -> Histogram:
        """Return the series with these label values; keep it, asking costs a look-up."""
        series = self._histograms.setdefault(metric, {})
        found = series.get(labels)
        if found is None:
            labels = self._bounded(metric, series, labels)
            found = series.setdefault(labels, Histogram(metric.bounds))
        return found

    def observe(self, metric: Metric, read: Callable[[], Iterable[Observation]]) -> None:
        """Ask ``read`` for the metric's values at each collection; several are joined."""
        self._observed.setdefault(metric, []).append(read)

    def collect(self) -> list[Reading]:
        """Return every metric with its series, by name; call it on the loop's thread."""
        readings: dict[str, Reading] = {}
        for metric, counters in self._counters.items():
            values = tuple((labels, float(each.value)) for labels, each in counters.items())
            readings[metric.name] = Reading(metric, values)
        for metric, series in self._histograms.items():
            readings[metric.name] = Reading(metric, (), tuple(series.items()))
        for metric, reads in self._observed.items():
            readings[metric.name] = Reading(metric, self._read(metric, reads))
        return [readings[name] for name in sorted(readings)]

    def _read(
        self, metric: Metric, reads: list[Callable[[], Iterable[Observation]]]
    ) -> tuple[Observation, ...]:
        values: dict[Labels, float] = {}
        for read in reads:
            for labels, value in read():
                kept = labels if labels in values else self._bounded(metric, values, labels)
                values[kept] = values.get(kept, 0.0) + value
        return tuple(values.items())

    def _bounded(self, metric: Metric, series: Sized, labels: Labels) -> Labels:
        if len(labels) != len(metric.labels):
            raise ValueError(f"metric {metric.name} has labels {metric.labels}, not {labels}")
        if len(series) < self.series_max:
            return labels
        self.overflows += 1
        return (OTHER,) * len(labels)
