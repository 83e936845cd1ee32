"""The group log: epochs never go back (invariant 6), assignments keep their interval (ASI-1)."""

from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_group.group import ShareGroup
from sharemesh.domain.share_group.records import (
    NEVER_MS,
    CurrentMemberAssignment,
    GroupEpochFloor,
    GroupLogRecord,
    GroupMetadata,
    TargetAssignmentMetadata,
)
from sharemesh.domain.share_group.shard import GroupShard
from tests.simulation.invariants import NEVER_BACK
from tests.simulation.world import CLOCK_RATE, World

SHORTEST_INTERVAL_MS = int(1_000 / (1 + CLOCK_RATE)) - 2  # of groups that never had 0


class GroupHistory:
    """Replays one shard as a new owner does, and compares each record with what stood there."""

    def __init__(self, world: World, shard: int, *, is_whole: bool) -> None:
        """``is_whole``: not rewritten, else a group is as its first record says."""
        self._world = world
        self._shard = shard
        self._machine = GroupShard()
        self._is_whole = is_whole
        self._begun: set[GroupId] = set()

    def take(self, offset: int, record: GroupLogRecord) -> None:
        """Judge a committed record, and apply it."""
        if isinstance(record, GroupEpochFloor):
            self._compare("the epoch floor", self._machine.epoch_floor, record.epoch)
        else:
            group = self._machine.groups.get(record.group_id)
            is_known = self._is_whole or record.group_id in self._begun
            if is_known and group is not None:
                self._judge(group, record)
            elif is_known and isinstance(record, GroupMetadata):
                self._compare(f"{record.group_id}: epoch", self._machine.epoch_floor, record.epoch)
            if isinstance(record, GroupMetadata):
                self._begun.add(record.group_id)
        self._machine.apply(record, offset)

    def end(self) -> None:
        """Everything was read: what it comes to must not contradict itself."""
        NEVER_BACK.judged(self._world.event_log.counters, len(self._machine.groups))
        try:
            self._machine.validate()
        except AssertionError as error:
            text = f"the log of group shard {self._shard}: {error}"
            self._world.event_log.violation(self._world.now_s, NEVER_BACK.broken(text))

    def _judge(self, group: ShareGroup, record: GroupLogRecord) -> None:
        where = group.group_id
        match record:
            case GroupMetadata():
                self._compare(f"{where}: group epoch", group.epoch, record.epoch)
            case TargetAssignmentMetadata():
                known = group.assignment_epoch
                self._compare(f"{where}: assignment epoch", known, record.assignment_epoch)
                self._judge_interval(group, record)
            case CurrentMemberAssignment():
                member = group.members.get(record.member_id)
                if member is not None:
                    text = f"{where} {record.member_id}: member epoch"
                    self._compare(text, member.member_epoch, record.member_epoch)
            case _:
                return

    def _judge_interval(self, group: ShareGroup, record: TargetAssignmentMetadata) -> None:
        """Two assignments keep their distance, whoever computed them; a rewritten one is one."""
        is_another = record.assignment_epoch != group.assignment_epoch
        if NEVER_MS in {record.assigned_at_ms, group.assigned_at_ms} or not is_another:
            return
        if group.group_id in self._world.hurried_groups:
            return
        self._world.event_log.counters["assignment intervals judged"] += 1
        passed_ms = record.assigned_at_ms - group.assigned_at_ms
        if passed_ms < SHORTEST_INTERVAL_MS:
            text = f"{group.group_id}: assigned again after {passed_ms} ms, within the interval"
            self._world.event_log.violation(self._world.now_s, f"{text} (ASI-1)")

    def _compare(self, what: str, before: int, after: int) -> None:
        NEVER_BACK.judged(self._world.event_log.counters)
        if after < before:
            text = f"{what} went back from {before} to {after}"
            self._world.event_log.violation(self._world.now_s, NEVER_BACK.broken(text))
