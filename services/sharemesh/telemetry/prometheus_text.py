"""Prometheus' text format, version 0.0.4, of what a registry holds."""

from collections.abc import Iterable, Iterator

from sharemesh.telemetry.instruments import Histogram, InstrumentKind, Labels, Reading

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def expose(readings: Iterable[Reading]) -> str:
    """Return one page with all readings."""
    lines: list[str] = []
    for reading in readings:
        name = reading.metric.prometheus_name
        lines.append(f"# HELP {name} {_escaped_help(reading.metric.says)}")
        lines.append(f"# TYPE {name} {reading.metric.kind}")
        names = reading.metric.labels
        if reading.metric.kind is InstrumentKind.HISTOGRAM:
            for values, histogram in reading.histograms:
                lines.extend(_buckets(name, names, values, histogram))
        else:
            lines.extend(
                f"{name}{_labels(names, values)} {_number(value)}"
                for values, value in reading.values
            )
    return "\n".join(lines) + "\n"


def _buckets(name: str, names: Labels, values: Labels, histogram: Histogram) -> Iterator[str]:
    running = 0
    bounds = (*map(_number, histogram.bounds), "+Inf")
    for bound, count in zip(bounds, histogram.counts, strict=True):
        running += count
        yield f"{name}_bucket{_labels((*names, 'le'), (*values, bound))} {running}"
    yield f"{name}_sum{_labels(names, values)} {_number(histogram.total)}"
    yield f"{name}_count{_labels(names, values)} {running}"


def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
