"""Invariant 14 while a run goes on: nothing waits that could go on, nothing outlives its end.

Locks of living leaders end when their time is over, and what has no records is no lock; a fetch
does not wait beside records that it could get (KAFKA-20505); a share partition that initializes
waits for something; jobs of a shard that was lost stop (KAFKA-20710).
"""

import asyncio
import itertools
from dataclasses import dataclass

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.share_partition.events import Lifecycle
from sharemesh.runtime.shard import CoordinatorShard
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner
from tests.simulation.checkers.grants import OVERDUE_MS
from tests.simulation.invariants import FENCED, PROGRESS
from tests.simulation.loop import PROCESS, Process
from tests.simulation.patching import Patches
from tests.simulation.world import World

LOOK_S = 0.1
OVERDUE_LOOKS = 5  # so many looks for waiting fetches to one for locks and jobs
OVERDUE_MAX = 4  # in a row that may find the same: a process may just have been thawed
WAITING_MAX = 3
JOBS_MAX = 8


@dataclass(slots=True)
class _Seen:
    """A share partition at a living leader, and how often in a row it was found to stall."""

    runner: SharePartitionRunner
    process: Process
    overdue: int = 0
    waiting: int = 0
    idle: int = 0


@dataclass(slots=True)
class _Lost:
    """A shard that a process gave up, or lost."""

    name: str
    process: Process
    looks: int = 0


class StallChecker:
    """Looks at all leaders and coordinators ten times a second."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._runners: list[_Seen] = []
        self._lost: list[_Lost] = []

    def install(self, patches: Patches) -> None:
        """Watch runners and ended shards from now on."""
        real_init, real_end, real_stop = (
            SharePartitionRunner.__init__,
            CoordinatorShard._end,
            CoordinatorShard.stop,
        )
        checker = self

        def init(runner, *arguments, **words):
            checker._runners.append(_Seen(runner, PROCESS.get()))
            real_init(runner, *arguments, **words)

        def end(shard, error):
            checker._lost.append(_Lost(shard._name, PROCESS.get()))
            real_end(shard, error)

        async def stop(shard):
            await real_stop(shard)
            checker._lost.append(_Lost(shard._name, PROCESS.get()))

        patches.setattr(SharePartitionRunner, "__init__", init)
        patches.setattr(CoordinatorShard, "_end", end)
        patches.setattr(CoordinatorShard, "stop", stop)

    async def run(self) -> None:
        """Look on until the run ends."""
        for number in itertools.count():
            await asyncio.sleep(LOOK_S)
            self._runners = [seen for seen in self._runners if self._is_active(seen)]
            for seen in self._runners:
                self._look_for_waiting(seen)
                self._look_for_initializing(seen)
            if number % OVERDUE_LOOKS == 0:
                for seen in self._runners:
                    self._look_for_overdue(seen)
                self._lost = [lost for lost in self._lost if self._goes_on(lost)]

    def _is_active(self, seen: _Seen) -> bool:
        """Return whether to look at a share partition again; one that sleeps is not judged."""
        runner = seen.runner
        if not seen.process.alive or runner.phase is Phase.ENDED:
            return False
        if seen.process.frozen:
            seen.idle = -1
        if seen.process.frozen or runner.phase is not Phase.ACTIVE:
            seen.overdue = seen.waiting = -1
        return True

    def _look_for_waiting(self, seen: _Seen) -> None:
        PROGRESS.judged(self._world.event_log.counters)
        seen.waiting = seen.waiting + 1 if self._could_go_on(seen.runner) else 0
        if seen.waiting == WAITING_MAX:
            self._say(seen.runner, "a fetch waits beside records that it could get")

    def _look_for_initializing(self, seen: _Seen) -> None:
        """A share partition that is neither served nor waits for anything is lost (INI-13)."""
        runner = seen.runner
        PROGRESS.judged(self._world.event_log.counters)
        is_over = all(task.done() for task in runner._work._running)
        is_idle = runner.phase is Phase.INITIALIZING and is_over
        seen.idle = seen.idle + 1 if is_idle else 0
        if seen.idle == WAITING_MAX:
            self._say(runner, "it is initializing, and waits for nothing")

    def _look_for_overdue(self, seen: _Seen) -> None:
        overdue = self._overdue(seen.runner)
        if seen.runner.machine._state is Lifecycle.FENCED:
            overdue = ""  # it has handed its locks over, and decides nothing more (HND-4)
        seen.overdue = seen.overdue + 1 if overdue else 0
        if seen.overdue == OVERDUE_MAX:
            self._say(seen.runner, overdue)

    def _overdue(self, runner: SharePartitionRunner) -> str:
        now_ms = runner._environment.clock.now_ms()
        locks = {each.lock_deadline_ms for each in runner.machine.record_states()}
        deadline_ms = runner.machine.next_deadline_ms
        if deadline_ms is not None and deadline_ms not in locks:
            return f"a lock of no record ends in {deadline_ms - now_ms} ms"
        for record in runner.machine.record_states():
            if record.state is not DeliveryState.ACQUIRED:
                continue
            deadline_ms = record.lock_deadline_ms
            if deadline_ms is None:
                return f"offset {record.first_offset} is held without a lock"
            if now_ms - deadline_ms > OVERDUE_MS:
                return (
                    f"offset {record.first_offset} is held {now_ms - deadline_ms} ms after the "
                    f"lock of {record.member_id} ended"
                )
        return ""

    def _could_go_on(self, runner: SharePartitionRunner) -> bool:
        return (
            runner.has_waiters
            and runner._fetch_lock is None
            and not runner._wake_planned
            and runner._worth_a_try()
        )

    def _goes_on(self, lost: _Lost) -> bool:
        """Judge the jobs of one shard that was lost; return whether to look again."""
        if not lost.process.alive:
            return False
        if not lost.process.frozen:
            lost.looks += 1
        if lost.looks < JOBS_MAX:
            return True
        FENCED.judged(self._world.event_log.counters)
        names = [task.get_name() for task in asyncio.all_tasks() if not task.done()]
        left = sorted(name for name in names if name.startswith(f"{lost.name} "))
        if left:
            text = f"{left[0]}: goes on at {lost.process}, which lost the shard"
            self._world.event_log.violation(self._world.now_s, FENCED.broken(text))
        return False

    def _say(self, runner: SharePartitionRunner, text: str) -> None:
        told = f"{self._world.place(runner.key)} epoch {runner.leader_epoch}: {text}"
        self._world.event_log.violation(self._world.now_s, PROGRESS.broken(told))
