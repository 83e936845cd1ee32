"""One seed: a world, a workload, its faults, the verdict."""

import gc
import logging
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass

from sharemesh.client.consumer import async_share_consumer
from tests.simulation.checkers.endings import judge_endings
from tests.simulation.checkers.explain import ExplainChecker
from tests.simulation.checkers.fencing import FencingChecker
from tests.simulation.checkers.grants import GrantChecker
from tests.simulation.checkers.hand_overs import HandOverChecker
from tests.simulation.checkers.metering import MetricsChecker
from tests.simulation.checkers.unseen import UnseenChecker
from tests.simulation.disk import UnreadableError
from tests.simulation.event_log import EventLog, tell_of_records
from tests.simulation.observers import observe
from tests.simulation.patching import Patches
from tests.simulation.verdict import judge
from tests.simulation.workloads.mixed import MixedWorkload
from tests.simulation.workloads.names import WORKLOADS
from tests.simulation.world import Options, World

_ENDED: list[World] = []  # never collected: the ``finally`` blocks of killed tasks must not run


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed gave."""

    seed: int
    violations: tuple[str, ...]
    event_hash: str
    counters: Counter[str]
    virtual_s: float
    lines: tuple[str, ...] = ()


class _EnoughError(Exception):
    """A violation was seen, and no more is asked for."""


def _stop_if(event_log: EventLog) -> None:
    if event_log.violations:
        raise _EnoughError


class _Complaints(logging.Handler):
    """Errors that a process logs are violations: of what is simulated only a read that fails may
    cause one, since nothing but the log tells an operator."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, UnreadableError) or self._world.is_expected(record.getMessage()):
            return
        self._world.event_log.violation(
            self._world.now_s, f"logged: {record.name}: {record.getMessage()} {error!r}"
        )


def run_seed(
    seed: int,
    options: Options,
    *,
    verbose: bool = False,
    patches: Patches | None = None,
    stop_early: bool = False,
) -> Outcome:
    """Run one seed. The process should end afterwards: killed tasks are kept, not ended.

    Args:
        seed: Everything follows from it, and from the options.
        options: Workload and size.
        verbose: Print the event log as it goes.
        patches: Planted bugs, applied already; observers are added to them.
        stop_early: End with the first violation: enough to know that a planted bug is caught.
    """
    gc.collect()
    gc.disable()
    event_log = EventLog(verbose=verbose)
    world = World(seed, options, event_log)
    _ENDED.append(world)
    workload = WORKLOADS[options.workload](world)
    patches = patches or Patches()
    grants = GrantChecker(world)
    grants.install(patches)
    metrics = MetricsChecker(world)
    metrics.install(patches)
    ExplainChecker(world, grants, workload.was_compacted).install(patches)
    FencingChecker(world).install(patches)
    unseen = UnseenChecker(world, workload.journal)
    unseen.install(patches)
    HandOverChecker(world, grants, unseen).install(patches)
    workload.install(patches)
    observe(world, patches)
    # An end of this process is none of its simulated ones, and killed clients never give it back.
    patches.setattr(async_share_consumer, "stopped_by_sigterm", lambda _: nullcontext())
    if stop_early:
        world.loop.after_turn = lambda: _stop_if(event_log)
    handler = _Complaints(world)
    logging.getLogger("sharemesh").addHandler(handler)
    try:
        world.loop.run_until_complete(
            world.loop.world.start(_all(world, workload, (grants, unseen), metrics))
        )
    except _EnoughError:
        pass
    except Exception as error:
        event_log.violation(world.now_s, f"the run ended with {error!r}")
    finally:
        logging.getLogger("sharemesh").removeHandler(handler)
        patches.undo()
    tell_of_records(event_log, workload.journal.entries)
    event_log.counters["faults"] = sum(
        count for name, count in event_log.counters.items() if name.startswith("fault ")
    )
    event_log.counters["messages"] = world.network.messages
    world.engine.count(event_log.counters)
    return Outcome(
        seed,
        tuple(event_log.violations),
        event_log.event_hash,
        event_log.counters,
        world.now_s,
        tuple(event_log.lines) if event_log.violations else (),
    )


async def _all(
    world: World,
    workload: MixedWorkload,
    watched: tuple[GrantChecker, UnseenChecker],
    metrics: MetricsChecker,
) -> None:
    await workload.run()
    await judge_endings(world, workload)
    await judge(world, workload, *watched)
    await workload.after_judgement()
    world.event_log.violations_of(world.now_s, metrics.judge(world.telemetries))
