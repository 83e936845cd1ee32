"""The telemetry of a service: metrics, spans, and their limits."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.spans import Spans


@dataclass(frozen=True, slots=True)
class Telemetry:
    """One for each process, made by the composition root.

    Attributes:
        registry: Metrics; always counted, even if they are never collected.
        spans: Spans; none are made without an exporter.
        detail_stride: One record in this many gets its own spans; 0 is none.
        partition_labels: Whether series are kept apart by partition.
    """

    registry: Registry
    spans: Spans
    detail_stride: int = 0
    partition_labels: bool = False

    def partition_label(self, partition: int) -> str:
        """Return the value of the label ``partition``: empty unless they are wanted."""
        return str(partition) if self.partition_labels else ""


def without_export(now_ns: Callable[[], int]) -> Telemetry:
    """Return telemetry that counts and makes no spans; ``now_ns`` is wall time."""
    return Telemetry(Registry(), Spans(enabled=False, rng=Random(0), now_ns=now_ns))  # noqa: S311


def stride_of(percent: float) -> int:
    """Return which record of how many is sampled for detail: 1 % is every 100th, 0 is none."""
    return round(100 / percent) if percent > 0 else 0
