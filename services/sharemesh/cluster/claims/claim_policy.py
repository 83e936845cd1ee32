"""What to do about one topic-partition, read from the view: nothing, wait, claim, or leave."""

from dataclasses import dataclass

from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.store.records import Claim, Deletion, PartitionAssignment
from sharemesh.cluster.view.cluster_state import Stored
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import NodeId, TopicPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import NodeInfo


@dataclass(frozen=True, slots=True)
class ClaimSettings:
    """How patient claims are; milliseconds."""

    standby_ms: int = 300  # standby k claims after (k + 1) times this without a leader
    leader_alive_ms: int = 5_000  # more, while the assigned leader is a live member
    leader_trouble_ms: int = 1_000  # more, if that leader says that it cannot lead it
    arrival_ms: int = 3_000  # a standby that has just started lets other leaders start too
    drain_ms: int = 5_000  # for holders to acknowledge when a partition moves away
    hand_over_ms: int = 1_000  # how long a drain waits for the controller to name new leaders
    departure_pace_ms: int = 250  # between two partitions that leave, less if they are many:
    departures_ms: int = 8_000  # from the first departure to the last, at most
    store_retry_ms: int = 500  # while the coordination store does not answer
    backoff_min_ms: int = 200  # after a failed start, doubling
    backoff_max_ms: int = 30_000
    unanswered_max_ms: int = 30_000  # the same where no log was found to be corrupt
    parallel_claims: int = 64
    parallel_starts: int = 32


@dataclass(frozen=True, slots=True)
class Step:
    """``wait_ms`` 0: claim now; None: until something changes; ``idle``: it is not ours."""

    wait_ms: int | None = None
    idle: bool = False


IDLE = Step(idle=True)

CLAIM = Step(wait_ms=0)


class ClaimPolicy:
    """Reads the view; decides nothing by itself."""

    def __init__(
        self, view: WatchedView, member: ClusterMember, clock: Clock, settings: ClaimSettings
    ) -> None:
        self.view = view
        self.member = member
        self.clock = clock
        self.settings = settings
        self._withdrawn = False
        self._started_ms = clock.now_ms()
        self._released: dict[TopicPartition, tuple[int, int]] = {}

    def withdraw(self) -> None:
        """Claim no more and let go."""
        self._withdrawn = True

    @property
    def withdrawn(self) -> bool:
        """Whether everything is to be given away."""
        return self._withdrawn

    @property
    def me(self) -> NodeId:
        """This node."""
        return self.member.node.node_id

    def assignment(self, partition: TopicPartition) -> Stored[PartitionAssignment] | None:
        """Return the assignment."""
        return self.view.tables.assignments.get(partition)

    def claim(self, partition: TopicPartition) -> Stored[Claim] | None:
        """Return the claim, but not one of ours that was given away while the view lags."""
        claim = self.view.tables.claims.get(partition)
        if partition in self._released:
            generation, revision = self._released[partition]
            lags = generation == self.view.generation
            if lags and claim is not None and claim.mod_revision <= revision:
                return None
            del self._released[partition]
        return claim

    def note_released(self, partition: TopicPartition, revision: int) -> None:
        """Remember that our claim, last changed at ``revision``, was given away."""
        self._released[partition] = (self.view.generation, revision)

    def successor(self, partition: TopicPartition) -> Stored[NodeInfo] | None:
        """Return the member that is assigned to lead after this node, if it is there to stay."""
        assignment = self.assignment(partition)
        if assignment is None or assignment.value.leader == self.me:
            return None
        found = self.view.tables.members.get(assignment.value.leader)
        return None if found is None or found.value.draining else found

    def deleted(self, partition: TopicPartition) -> bool:
        """Return whether the topic was deleted and this partition's directories are to be freed."""
        note = self._note(partition)
        return note is not None and not note.kept

    def detached(self, partition: TopicPartition) -> bool:
        """Return whether nobody may lead the partition, and its epoch stays as it is (KTP-19)."""
        note = self._note(partition)
        return note is not None and note.kept

    def gone(self, partition: TopicPartition) -> bool:
        """Return whether its topic was deleted or detached: nobody leads it after this process."""
        return self._note(partition) is not None

    def _note(self, partition: TopicPartition) -> Deletion | None:
        tables, topic_id = self.view.tables, partition.topic_id
        note = None if topic_id in tables.topics_by_id else tables.deletions.get(topic_id)
        return None if note is None else note.value

    def concerns(self, partition: TopicPartition) -> bool:
        """Return whether this node is to do something about the partition, now or soon."""
        assignment = self.assignment(partition)
        if assignment is None:
            return False
        claim = self.claim(partition)
        session = self.member.session
        if claim is not None and session is not None and claim.lease_id == session.lease_id:
            return True
        if claim is not None or self._withdrawn or self.member.node.draining:
            return False
        if not self.deleted(partition) and partition.topic_id not in self.view.tables.topics_by_id:
            return False
        return self.me == assignment.value.leader or self.me in assignment.value.standbys

    def next_step(self, partition: TopicPartition, vacant_since_ms: int) -> Step:
        """Return what to do while this process does not lead the partition."""
        if not self.concerns(partition):
            return IDLE
        assignment = self.assignment(partition)
        assert assignment is not None
        if self.claim(partition) is not None or assignment.value.leader == self.me:
            return CLAIM
        due_ms = vacant_since_ms + self._standby_wait_ms(partition, assignment.value)
        due_ms = max(due_ms, self._started_ms + self.settings.arrival_ms)
        return Step(max(0, due_ms - self.clock.now_ms()))

    def should_let_go(self, partition: TopicPartition) -> bool:
        """Return whether this process is to relinquish a partition that it leads."""
        if self._withdrawn or self.gone(partition):
            return True
        assignment = self.assignment(partition)
        return assignment is None or assignment.value.leader != self.me

    def has_seen(self, partition: TopicPartition, revision: int, generation: int) -> bool:
        """Return whether the view is past our claim, written at ``revision`` under ``generation``.

        The claim is the last key of its transaction; other keys of the same revision come before.
        """
        if self.view.generation > generation or self.view.tables.revision > revision:
            return True
        claim = self.view.tables.claims.get(partition)
        return claim is not None and claim.mod_revision == revision

    def holds(self, partition: TopicPartition, lease_id: int) -> bool:
        """Return whether the view shows the claim under this lease."""
        claim = self.view.tables.claims.get(partition)
        return claim is not None and claim.lease_id == lease_id

    def _standby_wait_ms(self, partition: TopicPartition, assignment: PartitionAssignment) -> int:
        live = [node_id for node_id in assignment.standbys if self.view.node(node_id) is not None]
        rank = live.index(self.me) if self.me in live else len(live)
        wait_ms = (rank + 1) * self.settings.standby_ms
        leader = self.view.node(assignment.leader)
        if leader is None or leader.draining:
            return wait_ms
        trouble = self.view.tables.troubles.get(partition)
        if trouble is not None and trouble.value.node_id == assignment.leader:
            return wait_ms + self.settings.leader_trouble_ms
        return wait_ms + self.settings.leader_alive_ms


class DrainPacer:
    """Gives each partition that leaves a live node a time of its own.

    A hand-over is short work for five processes. Were all partitions of a node handed over in the
    same moment, each would wait for the work of all; so they go on serving until it is their turn.
    """

    def __init__(self, clock: Clock, *, pace_ms: int, all_within_ms: int) -> None:
        """``pace_ms`` lies between two of them, less if ``all_within_ms`` asks for it."""
        self._clock = clock
        self._pace_ms = pace_ms
        self._all_within_ms = all_within_ms
        self._next_ms: float = clock.now_ms()
        self._in_a_hurry = False

    def turn_ms(self, led: int) -> float:
        """Return when the next partition may go, of ``led`` that might want to."""
        turn_ms = max(self._next_ms, self._clock.now_ms())
        self._next_ms = turn_ms + min(self._pace_ms, self._all_within_ms / max(led, 1))
        return turn_ms

    def left_ms(self, turn_ms: float) -> int:
        """Return how long to wait for a turn."""
        return 0 if self._in_a_hurry else max(0, round(turn_ms - self._clock.now_ms()))

    def hurry(self) -> None:
        """Let everything go at once from now on."""
        self._in_a_hurry = True
