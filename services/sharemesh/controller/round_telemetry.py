"""What the controller tells: whether it is elected, and each round that changed something."""

from collections.abc import Callable

from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.spans import Span, Spans


def register(registry: Registry, elected: Callable[[], bool], moves: Callable[[], int]) -> None:
    """Register the controller's metrics."""
    registry.observe(names.CONTROLLER_ELECTED, lambda: [((), float(elected()))])
    registry.observe(names.PLACEMENT_MOVES, lambda: [((), moves())])


def trace_round(spans: Spans, began_ns: int, changes: int, moves: int) -> None:
    """Write the span of a placement round that wrote assignments."""
    if spans.enabled and changes:
        attributes = {names.PLACEMENT_CHANGES: changes, names.MOVES: moves}
        context = spans.context()
        spans.end(Span(names.PLACEMENT, context, None, began_ns, spans.now_ns(), attributes))
