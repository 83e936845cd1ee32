"""All checks at the end of a run: histories and durable state against the promises."""

from collections import defaultdict
from collections.abc import Sequence

from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from tests.history.checker import History
from tests.history.journal import Entry
from tests.simulation.checkers.durable import Audit, Auditor, terminal_of
from tests.simulation.checkers.grants import GrantChecker
from tests.simulation.invariants import AT_LEAST_ONCE, DELIVERY_COUNT, FINAL
from tests.simulation.workloads.mixed import PARTITIONS, MixedWorkload
from tests.simulation.world import DELIVERY_COUNT_LIMIT, World


async def judge(world: World, workload: MixedWorkload, grants: GrantChecker) -> None:
    """Stop every process, read the logs as a new owner would, and compare."""
    for node in world.nodes.values():
        node.crash(noticed=False, restart=False)
    world.machine_down = True
    audit = await Auditor(world).audit()
    world.story.violations_of(world.now_s, audit.complaints)
    for group in workload.groups:
        _judge_history(world, workload, audit, group, grants)
    _judge_records(world, workload, audit)
    workload.judge(audit)


def _judge_history(
    world: World, workload: MixedWorkload, audit: Audit, group: str, grants: GrantChecker
) -> None:
    keys = {
        f"{name}/{number}": SharePartitionKey(GroupId(group), TopicId(topic_id), number)
        for topic_id, name in workload.topic_ids.items()
        for number in range(PARTITIONS)
    }
    starts, terminal = terminal_of(audit, group, workload.topic_ids)
    log_starts = {
        f"{workload.topic_ids[where.topic_id]}/{where.partition}": start
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
    for entry in workload.journal.entries:
        if entry.event == "produced":
            if entry.fields["r"][0][0] >= begins.get(entry.fields["p"], 0):
                history.add([entry])
        elif entry.who in members:
            history.add([entry])
    for name, offset in _given_up(workload.journal.entries, members):
        key = keys.get(name)
        if key is not None and offset < grants.start_offset_at(key, world.now_s):
            world.story.counters["given up, the write lost"] += 1
            terminal.setdefault(name, set()).add(offset)
    report = history.judge(
        starts, terminal, lambda name, time_ms: grants.start_offset_at(keys[name], time_ms / 1_000)
    )
    world.story.counters["late acknowledgements"] += report.late_acknowledgements
    counters = world.story.counters
    AT_LEAST_ONCE.judged(counters, report.produced)
    DELIVERY_COUNT.judged(counters, report.delivered)
    FINAL.judged(counters, report.accepted + report.rejected)
    for reason, count in report.redelivery_reasons.items():
        counters[f"redelivered: {reason}"] += count
    world.story.violations_of(world.now_s, (f"{group}: {text}" for text in report.violations))


def _given_up(entries: Sequence[Entry], members: set[str]) -> set[tuple[str, int]]:
    """Return records whose last allowed delivery ended without anybody's confirmed word.

    Their locks expire, their leader archives them and goes on even if the write of it fails (spec
    LK-6): then the state log learns it with the next write, or a new leader delivers them again.
    """
    last: set[tuple[str, int]] = set()
    decided: set[tuple[str, int]] = set()
    for entry in entries:
        if entry.who not in members:
            continue
        name, ranges = entry.fields.get("p"), entry.fields.get("r", ())
        if entry.event == "delivered":
            last |= {
                (name, offset)
                for first, final, count in ranges
                if count >= DELIVERY_COUNT_LIMIT
                for offset in range(first, final + 1)
            }
        elif (
            entry.event == "acknowledged"
            and not entry.fields["error"]
            and entry.fields["k"] in ("accept", "reject")
        ):
            decided |= {(name, o) for first, final in ranges for o in range(first, final + 1)}
    return last - decided


def _judge_records(world: World, workload: MixedWorkload, audit: Audit) -> None:
    journal, complaints = workload.journal, []
    places: dict[bytes, list[str]] = defaultdict(list)
    stored: dict[tuple[str, int], bytes] = {}
    starts: dict[str, int] = {}
    for where, records in audit.records.items():
        topic = workload.topic_ids.get(where.topic_id)
        if topic is None:
            continue
        name = f"{topic}/{where.partition}"
        starts[name] = audit.log_starts[where]
        for offset, value in records.items():
            stored[name, offset] = value
            places[value].append(f"{name}@{offset}")
    for (name, offset), value in journal.produced_values.items():
        if offset >= starts.get(name, 0) and stored.get((name, offset)) != value:
            complaints.append(
                f"{name}@{offset} was confirmed as {value!r} and holds "
                f"{stored.get((name, offset))!r}"
            )
    for value, found in places.items():
        if len(found) > 1:
            complaints.append(f"{value!r} was produced once and lies at {found}")
        if value not in journal.sent_values:
            complaints.append(f"{value!r} at {found} was never produced")
    for (name, offset), values in journal.delivered_values.items():
        known = stored.get((name, offset))
        if len(values) > 1 or (known is not None and known not in values):
            complaints.append(f"{name}@{offset} holds {known!r} and was delivered as {values}")
    world.story.violations_of(world.now_s, sorted(complaints)[:10])
