"""What each round of the operator tells: a span, and how long it took."""

from collections.abc import Callable

from sharemesh.telemetry import names
from sharemesh.telemetry.spans import Span
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh_operator.cluster.work_queue import Key, Work

DONE = "done"
FAILED = "failed"
CANCELLED = "cancelled"


def told(
    work: Work, telemetry: Telemetry, namespace: str, generation_of: Callable[[Key], int]
) -> Work:
    """Return ``work`` with a span and a measurement of each round, whatever becomes of it.

    ``generation_of`` is the generation of an object that was seen last, 0 if none was.
    """
    spans, registry = telemetry.spans, telemetry.registry

    async def one_round(key: Key) -> int | None:
        began_ns = spans.now_ns()
        outcome, error = CANCELLED, ""
        try:
            again_ms = await work(key)
            outcome = DONE
        except Exception as failure:
            outcome, error = FAILED, type(failure).__name__
            raise
        finally:
            ended_ns = spans.now_ns()
            took = registry.histogram(names.RECONCILE_DURATION, key.kind, outcome)
            took.record((ended_ns - began_ns) / 1e9)
            if spans.enabled:
                attributes = {
                    names.K8S_NAMESPACE: namespace,
                    names.OBJECT_KIND: key.kind,
                    names.OBJECT_NAME: key.name,
                    names.OBJECT_GENERATION: generation_of(key),
                    names.RECONCILE_OUTCOME: outcome,
                }
                name = f"{names.RECONCILE} {key.kind}"
                times = (began_ns, ended_ns)
                spans.end(Span(name, spans.context(), None, *times, attributes, error=error))
        return again_ms

    return one_round
