"""Part kafka of `make faults`: Sharemesh on three real brokers of Apache Kafka.

Each row has its own brokers (KRaft, a session of three seconds), an etcd and a mesh under steady
load, and judges the history of its trials at once. Times are from the fault, where brokers come
back from their start, until every partition delivered what was produced later and had
acknowledgements confirmed.
"""

import itertools
from collections.abc import Sequence
from functools import partial

from tests.faults.brokers import (
    broker_faults,
    frame_faults,
    loss_faults,
    partitions,
    process_faults,
    topic_faults,
)
from tests.faults.brokers.broker_load import (
    GOAL_MS,
    THREE_BROKERS,
    Scene,
    Trial,
    series,
)
from tests.faults.namespaces import available
from tests.faults.trials import Fault, Outcome, Series

APART = Scene(apart=True)
FROZEN_GOAL_MS = 13_000.0  # the lease of a frozen process, and three seconds


async def each(trial: Trial, scene: Scene, count: int, seed: int) -> Outcome:
    """Run one fault ``count`` times."""
    if (scene.disk_mib or scene.apart) and not available():
        return Outcome((), (), "not run: small disks and namespaces need root", trials=count)
    return await series([trial] * count, seed, scene)


async def between(trials: Sequence[Trial], count: int, seed: int) -> Outcome:
    """Run faults of frames in turn, ``count`` of them."""
    chosen = itertools.islice(itertools.cycle(trials), count)
    return await series(list(chosen), seed, Scene(proxied=True))


def row(
    trial: Trial,
    trials: int,
    *,
    goal_ms: float | None = GOAL_MS,
    scene: Scene = THREE_BROKERS,
    at_once: int = 5,
) -> Series:
    """Return the row of one fault, by its name."""
    run = partial(each, trial, scene)
    return Series(trial.__name__, trials, run, at_once=at_once, goal_ms=goal_ms)


def frames(trial: Trial, trials: int) -> Series:
    """Return the row of a fault between Sharemesh and brokers."""
    return Series(trial.__name__, trials, partial(between, [trial]), at_once=10)


async def one_broker_restarted(count: int, seed: int) -> Outcome:
    """The only broker, one replica: killed and started again."""
    return await series([broker_faults.all_down] * count, seed, Scene(brokers=1))


FAULTS: tuple[Fault | Series, ...] = (
    row(broker_faults.record_broker_killed, 20),
    row(broker_faults.state_broker_killed, 20),
    row(broker_faults.broker_and_coordinator_killed, 10),
    row(broker_faults.broker_frozen, 10),
    row(partitions.zombie_broker, 10, scene=APART),
    row(partitions.broker_cut_off, 10, scene=APART),
    row(broker_faults.leaders_moved, 20),
    row(broker_faults.broker_left, 10),
    row(broker_faults.majority_down, 10),
    row(broker_faults.all_down, 5),
    Series("one_broker_restarted", 10, one_broker_restarted, at_once=5, goal_ms=GOAL_MS),
    row(broker_faults.disk_full, 5, scene=Scene(disk_mib=192)),
    row(loss_faults.unclean_election, 5, goal_ms=None, at_once=1),
    row(loss_faults.topic_recreated, 10, goal_ms=None),
    row(topic_faults.rights_revoked, 5, scene=Scene(guarded=True)),
    row(topic_faults.rights_blip, 5, scene=Scene(guarded=True)),
    row(topic_faults.compression_switched, 5),
    row(topic_faults.retention_race, 10),
    row(topic_faults.quota_throttle, 5, goal_ms=None),
    row(process_faults.leader_killed, 20),
    row(process_faults.share_coordinator_killed, 20),
    row(process_faults.group_coordinator_killed, 10),
    row(process_faults.zombie_leader, 20, goal_ms=FROZEN_GOAL_MS),
    row(process_faults.zombie_coordinator, 20, goal_ms=FROZEN_GOAL_MS),
    row(process_faults.etcd_frozen, 5),
    row(process_faults.etcd_restored, 5, goal_ms=None, at_once=1),
    frames(frame_faults.late_request, 50),
    frames(frame_faults.answer_lost, 50),
    frames(frame_faults.frame_cut, 20),
    frames(frame_faults.late_after_take_over, 20),
)
