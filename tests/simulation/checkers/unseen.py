"""Invariants 2, 4 and 5 of what no application has seen: it burns no delivery (docs/spec HBK).

Each delivery that counts was handed out to an application, unless its member could not be heard:
it was killed, cut off, had lost its rights (AUT-6), or its leader stood still. Nothing is handed
out whose lock is long gone, and who let a lock end without a word gets nothing on its stream.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sharemesh.client.consumer.consume_stream import LeaderSession
from sharemesh.client.consumer.handed_over import FOLLOW_MS
from sharemesh.domain.delivery_state import AcknowledgeType, Cause
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import SharePartitionKey, TopicId, TopicPartition
from sharemesh.domain.share_partition.effects import Answered, RecordsAcquired, WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    Acquire,
    Event,
    Fence,
    HandOver,
    ReleaseMember,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.ports.network import Failure
from sharemesh.share_leader.partition.hand_over_notices import HandOverNotices
from sharemesh.share_leader.partition.led_partitions import LedPartition
from sharemesh.share_leader.streaming.consume_stream import ConsumeStream
from tests.simulation.checkers.grants import kind_of
from tests.simulation.invariants import (
    DELIVERY_COUNT,
    NO_EARLY_REDELIVERY,
    Invariant,
)
from tests.simulation.journal import Handed, SimJournal
from tests.simulation.loop import PROCESS, Process
from tests.simulation.patching import Patches
from tests.simulation.world import DELIVERY_COUNT_LIMIT, World

LATE_S = 1.0  # so long after the end of a lock its holder may not know of it yet
ON_ITS_WAY_S = 0.3  # so long a grant travels over a slow network
TOLD_S = 1.0 + ON_ITS_WAY_S  # so long a hand-over takes that its members hear of in time (HND-5)
TIE_S = 0.002  # leaders compare whole milliseconds of their own clocks
COUNTED = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.RELEASE)
ENDED_BY_TIME = (Cause.LOCK_EXPIRY, Cause.DELIVERY_LIMIT)


@dataclass(slots=True)
class Held:
    """A grant that has not ended: to whom, by whom, and since when its lock runs."""

    member: str
    count: int
    leader: Process
    granted_s: float
    locked_s: float
    is_in_hand: bool = False  # a handler was at work on it, from an earlier grant
    epoch: int = 0  # of the leader that granted it, if it was handed over since
    leaders_before: tuple[Process, ...] = ()  # who had it, and handed it over
    hand_overs: tuple[tuple[SharePartitionKey, int], ...] = ()  # by which leader epochs
    taken_s: float = 0.0  # when the last leader had it


class UnseenChecker:
    """Watches every grant of a run to its end, and what becomes of it at the applications."""

    def __init__(self, world: World, journal: SimJournal) -> None:
        self._world = world
        self._journal = journal
        self._counters = world.event_log.counters
        self._held: dict[SharePartition, dict[int, Held]] = defaultdict(dict)
        self._ended: dict[Handed, tuple[float, Held, str]] = {}
        self._excused: dict[SharePartitionKey, dict[int, set[int]]] = defaultdict(
            lambda: defaultdict(set)
        )
        self._heard_s: dict[tuple[Process, str], float] = {}
        self._lapsed: set[tuple[Process, str]] = set()
        self._told: dict[tuple[Process, TopicPartition, int], float] = {}  # when (HND-9)
        self._cuts: dict[tuple[Process, TopicPartition, int], dict[str, float]] = {}  # until told
        self._sent_s: dict[tuple[TopicPartition, int], float] = {}  # last words of leaders (HND-4)
        self._unanswered: set[tuple[SharePartitionKey, int]] = set()  # of those that still lead
        self._answered: set[tuple[SharePartitionKey, int]] = set()  # while they led
        self._told_late: set[tuple[Process, TopicPartition, int]] = set()
        self._refuses: set[tuple[TopicPartition, int]] = set()  # leaders that waited long enough
        self._said_late: set[tuple[str, TopicPartition, int]] = set()  # by such leaders (HND-5)
        self._refused_s: dict[Process, float] = {}  # whose session a quota refused, the last time
        journal.on_handed_out = self._handed_out

    def install(self, patches: Patches) -> None:
        """Look at each step, and at each message of a stream, from now on."""
        real_step, real_handle = SharePartition.step, ConsumeStream._handle
        real_take_hand_over, real_run = LeaderSession._take_hand_over, LeaderSession.run
        real_end_hand_over, real_say = LedPartition.end_hand_over, HandOverNotices.handed_over
        checker = self

        def step(machine, event, *, now_ms):
            effects = real_step(machine, event, now_ms=now_ms)
            checker.seen(machine, event, effects)
            return effects

        async def handle(stream, request):
            who = (PROCESS.get(), stream._session.key.member_id)
            checker._heard_s[who] = checker._world.now_s
            checker._lapsed.discard(who)
            await real_handle(stream, request)

        def take_hand_over(session, response):
            real_take_hand_over(session, response)
            for each in response.handed_over:
                partition = TopicPartition(TopicId(each.topic_id), each.partition)
                told = (PROCESS.get(), partition, each.leader_epoch)
                sent_s = checker._sent_s.get((partition, each.leader_epoch), 0.0)
                if checker._world.now_s - sent_s > TOLD_S:
                    checker._told_late.add(told)
                    checker._counters["hand-overs heard of late"] += 1
                checker._told.setdefault(told, checker._world.now_s)
                checker._cuts.setdefault(told, checker._world.network.cuts(told[0].name))

        def end_hand_over(led):
            checker._refuses.add((led.partition, led.leader_epoch))
            real_end_hand_over(led)

        def say(notices, partition, leader_epoch):
            if (partition, leader_epoch) in checker._refuses:
                member = notices.session.key.member_id
                checker._said_late.add((member, partition, leader_epoch))
            real_say(notices, partition, leader_epoch)

        async def run(session):
            await real_run(session)
            failure = session.failure and session.failure.failure
            is_full = session.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
            if is_full or failure is Failure.RESOURCE_EXHAUSTED:
                checker._refused_s[PROCESS.get()] = checker._world.now_s

        patches.setattr(SharePartition, "step", step)
        patches.setattr(ConsumeStream, "_handle", handle)
        patches.setattr(LeaderSession, "_take_hand_over", take_hand_over)
        patches.setattr(LeaderSession, "run", run)
        patches.setattr(LedPartition, "end_hand_over", end_hand_over)
        patches.setattr(HandOverNotices, "handed_over", say)

    def excused(self, key: SharePartitionKey) -> set[int]:
        """Return the offsets of which each delivery may have ended with nobody to see it."""
        counts = set(range(1, DELIVERY_COUNT_LIMIT + 1))
        return {offset for offset, known in self._excused[key].items() if counts <= known}

    def seen(self, machine: SharePartition, event: Event, effects: tuple) -> None:
        """Judge one step."""
        match event:
            case Acquire():
                self._granted(machine, event, effects)
            case Acknowledge():
                if not any(isinstance(each, Answered) and each.error for each in effects):
                    self._acknowledged(machine, event)
            case HandOver():
                self._sent_s[machine.key.topic_partition, machine.leader_epoch] = self._world.now_s
                self._unanswered.add((machine.key, machine.leader_epoch))
            case StateWritten(error=ErrorCode.NONE):
                if (machine.key, machine.leader_epoch) in self._unanswered:
                    self._answered.add((machine.key, machine.leader_epoch))
            case Fence():
                self._unanswered.discard((machine.key, machine.leader_epoch))
            case ReleaseMember():
                for offset, held, _ in self._written(machine, effects):
                    self._end(machine, offset, held, "its session ended", is_excused=True)
            case Tick():
                for offset, held, cause in self._written(machine, effects):
                    self._expired(machine, offset, held, cause)

    def handed_over(self, before: SharePartition, machine: SharePartition, offset: int) -> None:
        """A lock lives on at another leader: what becomes of it there ends the same delivery."""
        held = self._held[before].pop(offset, None)
        if held is not None:
            held.epoch = held.epoch or before.leader_epoch
            held.leaders_before += (held.leader,)
            held.hand_overs += ((before.key, before.leader_epoch),)
            held.leader = PROCESS.get()
            held.locked_s = held.taken_s = self._world.now_s
            self._held[machine][offset] = held

    # ---- grants and their ends ------------------------------------------------------------------

    def _granted(self, machine: SharePartition, event: Acquire, effects: tuple) -> None:
        ranges = [
            one for each in effects if isinstance(each, RecordsAcquired) for one in each.ranges
        ]
        leader, now_s = PROCESS.get(), self._world.now_s
        held = self._held[machine]
        for one in ranges:
            for offset in range(one.first_offset, one.last_offset + 1):
                grant = Held(event.member_id, one.delivery_count, leader, now_s, now_s)
                held[offset] = grant
                handed = self._handed(machine, offset, grant)
                self._ended.pop(handed, None)
                self._journal.granted_s[handed] = now_s
                in_hand = (grant.member, handed.partition, offset)
                grant.is_in_hand = in_hand in self._journal.in_hand
        if ranges and (leader, event.member_id) in self._lapsed:
            text = f"granted to {event.member_id}, which let a lock end unheard"
            self._say(machine, ranges[0].first_offset, text, DELIVERY_COUNT)

    def _written(
        self, machine: SharePartition, effects: tuple
    ) -> Iterator[tuple[int, Held, Cause]]:
        """Yield what a step took from its holders, and why."""
        held = self._held[machine]
        for write in effects:
            for batch in write.batches if isinstance(write, WriteState) else ():
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    if offset in held:
                        yield offset, held.pop(offset), batch.cause or write.cause

    def _expired(self, machine: SharePartition, offset: int, held: Held, cause: Cause) -> None:
        if cause not in ENDED_BY_TIME:
            return  # below the start offset: it is finished
        who = (held.leader, held.member)
        is_unheard = not held.epoch and held.locked_s > self._heard_s.get(who, 0.0) + TIE_S
        if is_unheard and who not in self._lapsed:
            self._lapsed.add(who)
            self._counters["members that let a lock end unheard"] += 1
        self._end(machine, offset, held, "its lock ended", is_excused=None)

    def _acknowledged(self, machine: SharePartition, event: Acknowledge) -> None:
        held = self._held[machine]
        for batch in event.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                grant = held.get(offset)
                if grant is None or grant.member != event.member_id:
                    continue
                kind = kind_of(batch, offset)
                if kind == AcknowledgeType.RENEW:
                    grant.locked_s = self._world.now_s
                elif offset >= machine.start_offset:
                    del held[offset]
                    self._said(machine, offset, grant, kind, is_uncounted=batch.uncounted)

    def _said(
        self,
        machine: SharePartition,
        offset: int,
        grant: Held,
        kind: AcknowledgeType | int,
        *,
        is_uncounted: bool,
    ) -> None:
        """A member decided about what it held."""
        if is_uncounted:
            record = machine.state_at(offset)
            if record is not None and record.delivery_count < grant.count:
                self._ended[self._handed(machine, offset, grant)] = (
                    self._world.now_s,
                    grant,
                    "it was handed back",
                )
            else:  # it counts nevertheless (HBK-4, HBK-5)
                self._end(machine, offset, grant, "it was handed back", is_excused=True)
        elif kind in COUNTED:
            # Its word on an earlier grant may be taken for this one, which it has not seen yet.
            handed = self._handed(machine, offset, grant)
            grant.is_in_hand |= (handed.member, handed.partition, offset) in self._journal.seen
            self._end(machine, offset, grant, f"{grant.member} acknowledged it", is_excused=False)

    def _end(
        self,
        machine: SharePartition,
        offset: int,
        held: Held,
        why: str,
        *,
        is_excused: bool | None,
    ) -> None:
        """A delivery ends that counts: somebody has seen the record, or nobody could.

        ``is_excused`` None: it is if the member could not speak to its leader.
        """
        client = self._journal.members.get(held.member)
        if client is None:
            return
        self._ended[self._handed(machine, offset, held)] = (self._world.now_s, held, why)
        DELIVERY_COUNT.judged(self._counters)
        handed = self._handed(machine, offset, held)
        if held.is_in_hand and handed not in self._journal.handed:
            self._journal.came_again(handed)
        if handed in self._journal.handed:
            return
        if is_excused is None:
            topic = handed.partition.rpartition("/")[0]
            is_excused = self._could_not_speak(held) or self._world.was_refused(
                client.process.name, topic, held.granted_s
            )
        if is_excused or not client.hands_back:
            self._excused[machine.key][offset].add(held.count)
            self._counters["deliveries that nobody saw, excused"] += 1
            return
        age_s = self._world.now_s - held.granted_s
        text = f"delivery {held.count} to {client.process} counts, though it was never handed out"
        text += f": {why} {age_s:.1f} s after the grant"
        self._say(machine, offset, text, DELIVERY_COUNT)

    # ---- applications ---------------------------------------------------------------------------

    def _handed_out(self, handed: Handed) -> None:
        """An application got a record: its lock must be there, as far as its client can know."""
        NO_EARLY_REDELIVERY.judged(self._counters)
        ended = self._ended.get(handed)
        if ended is None or not self._journal.members[handed.member].hands_back:
            return
        ended_s, held, why = ended
        late_s = self._world.now_s - ended_s
        leaders = (held.leader, *held.leaders_before)
        if late_s > LATE_S and not self._was_cut(held, leaders) and not self._came_late(held):
            text = f"{handed.partition}@{handed.offset} was handed out to {handed.member}"
            text += f" {late_s:.1f} s after {why}"
            self._world.event_log.violation(self._world.now_s, NO_EARLY_REDELIVERY.broken(text))

    def _could_not_speak(self, held: Held) -> bool:
        """Whether since the grant a word of the member may not have come to its leader in time."""
        client = self._journal.members[held.member].process
        stood_still = client.frozen or client.thawed_s >= held.granted_s
        leaders = (held.leader, *held.leaders_before)
        if held.hand_overs:
            if not self._answered.issuperset(held.hand_overs):
                return True  # a leader ended before it knew that they live on, and said nothing
            key, epoch = held.hand_overs[-1]
            parted = (key.topic_partition, epoch)
            told = (client, *parted)
            if told in self._told_late or (held.member, *parted) in self._said_late:
                return True  # what it said before was refused, unapplied
            told_s = self._told.get(told)
            if told_s is not None:
                cuts = self._cuts[told]
                if any(
                    cuts.get(each.name, float("-inf")) >= held.granted_s - ON_ITS_WAY_S
                    for each in held.leaders_before
                ):
                    return True  # it went out on a stream that was lost, and another was told
                leaders = (held.leader,)
                if held.taken_s - told_s > FOLLOW_MS / 1_000 - LATE_S:
                    return True  # no leader was there while it looked for one (HND-11)
                if self._refused_s.get(client, 0.0) > told_s:
                    return True  # it may have got no session with the next leader in time
        return not client.alive or stood_still or self._was_cut(held, leaders)

    def _came_late(self, held: Held) -> bool:
        """Whether a grant came while its member was frozen, which cannot know for how long."""
        client = self._journal.members[held.member].process
        return client.frozen_s - ON_ITS_WAY_S < held.granted_s <= client.thawed_s

    def _was_cut(self, held: Held, leaders: tuple[Process, ...]) -> bool:
        """Whether since the grant a leader of it stood still, or was cut off from the member."""
        client = self._journal.members[held.member]
        since_s = held.granted_s - ON_ITS_WAY_S  # the leader may not have heard of the loss yet
        return any(
            leader.frozen
            or leader.thawed_s >= held.granted_s
            or self._world.network.was_cut(client.process.name, leader.name, since_s)
            for leader in leaders
        )

    def _handed(self, machine: SharePartition, offset: int, held: Held) -> Handed:
        key = machine.key
        name = f"{self._world.topic_names.get(key.topic_id, '')}/{key.partition}"
        epoch = held.epoch or machine.leader_epoch
        return Handed(held.member, name, epoch, offset, held.count)

    def _say(self, machine: SharePartition, offset: int, text: str, invariant: Invariant) -> None:
        told = f"{self._world.place(machine.key, offset)} epoch {machine.leader_epoch}: {text}"
        self._world.event_log.violation(self._world.now_s, invariant.broken(told))
