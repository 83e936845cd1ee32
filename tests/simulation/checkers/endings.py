"""Invariant 15 at the end of a run: explain says what became of records that clients finished."""

import random
from collections import defaultdict

from sharemesh.client.admin_results import Explanation
from sharemesh.client.errors import SharemeshError
from tests.simulation.invariants import EXPLAIN_IS_TRUE
from tests.simulation.workloads.mixed import MixedWorkload
from tests.simulation.world import World

ASKED = 12
ENDS = {"accept": ("ACKNOWLEDGED", "ACKNOWLEDGED"), "reject": ("REJECTED", "ARCHIVED")}
"""Reason and delivery state of what was confirmed."""


async def judge_endings(world: World, workload: MixedWorkload) -> None:
    """Ask for some records of which a confirmed acknowledgement says how they ended (EXP-1)."""
    decided = _decided(workload)
    asked = random.Random(f"{world.seed} endings").sample(sorted(decided), min(ASKED, len(decided)))
    for group, partition, offset in asked:
        topic, _, number = partition.rpartition("/")
        try:
            found = await workload.as_admin(
                workload.admin.explain(group, topic, int(number), offset)
            )
        except SharemeshError as error:
            world.tell(f"explain of {partition}@{offset}: {error}", count="explain failed")
            continue
        EXPLAIN_IS_TRUE.judged(world.event_log.counters)
        world.event_log.counters[f"explained at the end: {found.reason}"] += 1
        problem = _problem(found, decided[group, partition, offset])
        if problem:
            text = f"explain of {group} {partition}@{offset}: {found.reason}, but {problem}"
            world.event_log.violation(world.now_s, EXPLAIN_IS_TRUE.broken(text))


def _decided(workload: MixedWorkload) -> dict[tuple[str, str, int], str]:
    """Return how records ended: those of which all confirmed decisions say the same.

    Who was not the last to get a record, or held it longer than its lock, or after it was trimmed
    or retention deleted it, may have come late: below the start offset any word is answered with
    success, whatever became of the record (ACK-4).
    """
    group_of = {consumer.name: group for consumer, group in workload.consumers}
    last = _last_holders(workload, group_of)
    kinds: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for entry in workload.journal.entries:
        if entry.event != "acknowledged" or entry.fields["error"] is not None:
            continue
        group = group_of.get(entry.who)
        if group in workload.groups and entry.fields["k"] in ENDS:
            for first, final in entry.fields["r"]:
                for offset in range(first, final + 1):
                    where = (group, entry.fields["p"], offset)
                    who, granted_ms = last.get(where, ("", 0.0))
                    lock_ms = workload.world.lock_duration_ms
                    in_time = who == entry.who and entry.time_ms - granted_ms < lock_ms
                    if in_time and not workload.journal.was_trimmed(*where[1:], entry.time_ms):
                        kinds[where].add(entry.fields["k"])
    return {where: found.pop() for where, found in kinds.items() if len(found) == 1}


def _last_holders(
    workload: MixedWorkload, group_of: dict[str, str]
) -> dict[tuple[str, str, int], tuple[str, float]]:
    """Return which client got a record of a partition last, and when (ms), by group."""
    journal, newest = workload.journal, dict[tuple[str, str, int], tuple[int, int]]()
    holders: dict[tuple[str, str, int], tuple[str, float]] = {}
    for each, granted_s in journal.granted_s.items():
        client = journal.members.get(each.member)
        group = "" if client is None else group_of.get(client.process.name, "")
        where = (group, each.partition, each.offset)
        if client is not None and newest.get(where, (0, 0)) <= (each.epoch, each.count):
            newest[where] = (each.epoch, each.count)
            holders[where] = (client.process.name, granted_s * 1_000)
    return holders


def _problem(found: Explanation, kind: str) -> str:
    """Return what is wrong; an ending that is pruned, or was not found in time, is called so."""
    reason, state = ENDS[kind]
    is_pruned = found.events_from_ms is not None or bool(found.events_note)
    if found.delivery_state not in {state, *([""] if is_pruned else [])}:
        return f"a client got {kind} confirmed, and it is {found.delivery_state or 'not told'}"
    if found.reason in {reason, "BELOW_LOG_START"}:
        return ""
    unknown = {"BELOW_START_OFFSET", "ARCHIVED"} if is_pruned else set()
    return "" if found.reason in unknown else f"a client got {kind} confirmed"
