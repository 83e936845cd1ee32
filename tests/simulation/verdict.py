"""All checks at the end of a run: histories and durable state against the promises."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId, TopicPartition
from tests.history.checker import History, Promise
from tests.history.journal import Entry
from tests.simulation.checkers.durable import Audit, Auditor, terminal_of
from tests.simulation.checkers.grants import GrantChecker
from tests.simulation.checkers.unseen import UnseenChecker
from tests.simulation.invariants import (
    AT_LEAST_ONCE,
    DELIVERY_COUNT,
    EXCLUSIVE_LOCK,
    FINAL,
    Invariant,
)
from tests.simulation.workloads.mixed import PARTITIONS, MixedWorkload
from tests.simulation.world import DELIVERY_COUNT_LIMIT, World

PROMISED: dict[Promise, Invariant] = {
    Promise.AT_LEAST_ONCE: AT_LEAST_ONCE,
    Promise.EXCLUSIVE: EXCLUSIVE_LOCK,
    Promise.DELIVERY_COUNT: DELIVERY_COUNT,
    Promise.FINAL: FINAL,
}


async def judge(
    world: World, workload: MixedWorkload, grants: GrantChecker, unseen: UnseenChecker
) -> None:
    """Cut the power for good, read the logs as a new owner would, and compare."""
    world.lose_power()
    audit = await Auditor(world, workload.state_history).audit()
    for group in workload.groups:
        _judge_history(world, workload, audit, group, (grants, unseen))
    _judge_records(world, workload, audit)
    _judge_tasks(world)


def _judge_history(
    world: World,
    workload: MixedWorkload,
    audit: Audit,
    group: str,
    watched: tuple[GrantChecker, UnseenChecker],
) -> None:
    grants, unseen = watched
    keys = {
        f"{name}/{number}": SharePartitionKey(GroupId(group), TopicId(topic_id), number)
        for topic_id, name in workload.topic_ids.items()
        for number in range(PARTITIONS)
    }
    topics = {TopicId(topic_id): name for topic_id, name in workload.topic_ids.items()}
    starts, terminal = terminal_of(workload.state_history.states, group, topics)
    log_starts = {
        _name(workload, where): start
        for where, start in audit.log_starts.items()
        if where.topic_id in workload.topic_ids
    }
    begins = {
        name: max(
            log_starts.get(name, 0),
            workload.begins_at(name, grants.first_start_offset(key)),
        )
        for name, key in keys.items()
    }
    history = History(delivery_count_limit=DELIVERY_COUNT_LIMIT)
    members = {consumer.name for consumer, of_group in workload.consumers if of_group == group}
    lost: set[tuple[str, int]] = set()
    held = {
        (_name(workload, where), offset)
        for where, records in audit.records.items()
        if where.topic_id in workload.topic_ids
        for offset in records
    }
    for entry in workload.journal.entries:
        if entry.event == "produced":
            where = (entry.fields["p"], entry.fields["r"][0][0])
            is_asked_for = where not in lost and not workload.was_compacted(*where)
            if workload.was_lost(*where):
                is_asked_for &= where in held  # else nothing has its place yet
            if where[1] >= begins.get(where[0], 0) and is_asked_for:
                history.add([entry])
                if workload.was_lost(*where):
                    lost.add(where)  # another record has its place since
        elif entry.who in members:
            history.add([entry])
    report = history.judge(
        starts,
        terminal,
        lambda name, time_ms: grants.start_offset_at(keys[name], time_ms / 1_000),
        {name: unseen.excused(key) for name, key in keys.items()},
        {name: grants.unstored(key) for name, key in keys.items()},
    )
    world.event_log.counters["archived by the limit, and never seen"] += report.archived_unseen
    world.event_log.counters["late acknowledgements"] += report.late_acknowledgements
    counters = world.event_log.counters
    AT_LEAST_ONCE.judged(counters, report.produced)
    DELIVERY_COUNT.judged(counters, report.delivered)
    FINAL.judged(counters, report.accepted + report.rejected)
    for reason, count in report.redelivery_reasons.items():
        counters[f"redelivered: {reason}"] += count
    for promise, text in report.broken:
        invariant = PROMISED.get(promise)
        told = f"{group}: {text}"
        world.event_log.violation(world.now_s, invariant.broken(told) if invariant else told)
    _judge_reopened(world, workload, group, members)
    for name, offset in _stored(workload, audit):
        AT_LEAST_ONCE.judged(counters)
        from_offset = max(starts.get(name, 0), begins.get(name, 0))
        if workload.was_compacted(name, offset):
            continue  # one broker has it still
        if offset >= from_offset and offset not in terminal.get(name, ()):
            text = f"{group}: {name}@{offset} lies in the log and is not finished"
            world.event_log.violation(world.now_s, AT_LEAST_ONCE.broken(text))


def _name(workload: MixedWorkload, where: TopicPartition | SharePartitionKey) -> str:
    """Return how journals call a partition."""
    return f"{workload.topic_ids[where.topic_id]}/{where.partition}"


def _stored(workload: MixedWorkload, audit: Audit) -> Iterator[tuple[str, int]]:
    """Yield partition and offset of all records, confirmed to their producers or not."""
    for where, records in audit.records.items():
        if where.topic_id in workload.topic_ids:
            name = _name(workload, where)
            yield from ((name, offset) for offset in records)


def _judge_reopened(world: World, workload: MixedWorkload, group: str, members: set[str]) -> None:
    """What a write opened again that had been finished: nobody was told before that it is final."""
    reopened = {
        (_name(workload, each.key), each.offset): each
        for each in workload.state_history.reopened
        if each.key.group_id == group and each.key.topic_id in workload.topic_ids
    }
    world.event_log.counters["finished, and opened by who never heard of it"] += len(reopened)
    if not reopened:
        return
    for name, offset, time_ms in _final(workload.journal.entries, members):
        each = reopened.get((name, offset))
        if each is not None and time_ms < each.write_ms:
            when = f"was confirmed at {time_ms:.0f} ms, and opened again at {each.write_ms:.0f} ms"
            text = f"{group}: {name}@{offset} {when}"
            world.event_log.violation(world.now_s, FINAL.broken(text))


def _final(entries: Sequence[Entry], members: set[str]) -> Iterator[tuple[str, int, float]]:
    """Yield partition, offset and time (ms) of what was confirmed to members as final."""
    for entry in entries:
        if entry.who not in members or entry.event != "acknowledged" or entry.fields["error"]:
            continue
        if entry.fields["k"] in ("accept", "reject"):
            for first, final in entry.fields["r"]:
                for offset in range(first, final + 1):
                    yield entry.fields["p"], offset, entry.time_ms


def _judge_tasks(world: World) -> None:
    """What failed, and nobody asked how: production would log it when it is collected."""
    for process in world.loop.processes:
        for task in process.unheard():
            text = f"unheard: {process}, task {task.get_name()} failed: {task.exception()!r}"
            world.event_log.violation(world.now_s, text)


def _judge_records(world: World, workload: MixedWorkload, audit: Audit) -> None:
    journal, complaints = workload.journal, []
    places: dict[bytes, list[str]] = defaultdict(list)
    stored: dict[tuple[str, int], bytes] = {}
    starts: dict[str, int] = {}
    for where, records in audit.records.items():
        if where.topic_id not in workload.topic_ids:
            continue
        name = _name(workload, where)
        starts[name] = audit.log_starts[where]
        for offset, value in records.items():
            stored[name, offset] = value
            places[value].append(f"{name}@{offset}")
    for (name, offset), value in journal.produced_values.items():
        known = stored.get((name, offset))
        is_lost = workload.was_lost(name, offset)
        is_lost |= known is None and workload.was_compacted(name, offset)
        if offset >= starts.get(name, 0) and known != value and not is_lost:
            complaints.append(f"{name}@{offset} was confirmed as {value!r} and holds {known!r}")
    for value, found in places.items():
        if len(found) > 1:
            complaints.append(f"{value!r} was produced once and lies at {found}")
        if value not in journal.sent_s:
            complaints.append(f"{value!r} at {found} was never produced")
    for (name, offset), values in journal.delivered_values.items():
        is_given_up = offset < starts.get(name, 0) and workload.was_lost(name, offset)
        known = None if is_given_up else stored.get((name, offset))
        if len(values) > 1 or (known is not None and known not in values):
            complaints.append(f"{name}@{offset} holds {known!r} and was delivered as {values}")
    world.event_log.violations_of(world.now_s, sorted(complaints)[:10])
