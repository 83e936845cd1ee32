"""Whose turn it is: preferred owners of shards, and how long the others yield."""

from dataclasses import dataclass

from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.store.keys import election_name
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain import placement
from sharemesh.domain.ids import NodeId
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import NodeInfo, Role, ShardKind

_ROLE = {ShardKind.GROUP: Role.GROUP_COORDINATOR, ShardKind.STATE: Role.SHARE_COORDINATOR}


@dataclass(frozen=True, slots=True)
class TermSettings:
    """How patient candidates are; milliseconds."""

    yield_ms: int = 300  # the k-th in rank campaigns after a vacancy of k times this
    alone_ms: int = 1_000  # the only member waits this long for others when it starts
    stable_ms: int = 30_000  # a waiting preferred owner gets the shard after this
    store_retry_ms: int = 500  # while the coordination store does not answer
    backoff_min_ms: int = 200  # after a failed start, doubling
    backoff_max_ms: int = 30_000
    unanswered_max_ms: int = 30_000  # the same where no log was found to be corrupt
    failed_rest_ms: int = 300_000  # after a failed start, do not ask others to hand over


class CandidateRanking:
    """Reads the view; decides nothing by itself."""

    def __init__(
        self,
        view: WatchedView,
        member: ClusterMember,
        clock: Clock,
        kind: ShardKind,
        settings: TermSettings,
    ) -> None:
        self.view = view
        self.kind = kind
        self.settings = settings
        self._member = member
        self._clock = clock
        self._withdrawn = False
        self._started_ms = clock.now_ms()
        self._ranked_for: tuple[NodeInfo, ...] = ()
        self._ranks: list[list[NodeId]] = []

    def withdraw(self) -> None:
        """Campaign no more and let go."""
        self._withdrawn = True

    @property
    def withdrawn(self) -> bool:
        """Whether this process wants to be relieved."""
        return self._withdrawn or self._member.node.draining

    def ranks(self, shard: int) -> list[NodeId]:
        """Return who should lead a shard, best first: the preferred owner, then by rendezvous."""
        nodes = tuple(n for n in self.view.nodes_with(_ROLE[self.kind]) if not n.draining)
        if nodes != self._ranked_for:
            self._ranks = self._rank_all(nodes)
            self._ranked_for = nodes
        return self._ranks[shard] if shard < len(self._ranks) else []

    def wait_ms(self, shard: int, vacant_since_ms: int | None) -> int | None:
        """Return how long to wait before campaigning; None: until something changes.

        Args:
            shard: The shard.
            vacant_since_ms: Since when the shard is without a leader; None if it has one.
        """
        ranks = self.ranks(shard)
        me = self._member.node.node_id
        if self.withdrawn or me not in ranks:
            return None
        leader = self.view.tables.leader_of(election_name(self.kind, shard))
        if leader is not None and leader.value == me:
            return 0  # a candidacy that outlived a broken call: take it up
        now_ms = self._clock.now_ms()
        rank = ranks.index(me)
        if rank > 0:
            if vacant_since_ms is None:
                return None
            return max(0, vacant_since_ms + rank * self.settings.yield_ms - now_ms)
        if leader is None and len(ranks) == 1:
            return max(0, self._started_ms + self.settings.alone_ms - now_ms)
        return 0

    def preferred_waits(self, shard: int) -> bool:
        """Return whether another one is preferred and stands ready in the election."""
        ranks = self.ranks(shard)
        if not ranks or ranks[0] == self._member.node.node_id:
            return False
        candidates = self.view.tables.candidates.get(election_name(self.kind, shard), {})
        return any(candidate.value == ranks[0] for candidate in candidates.values())

    def _rank_all(self, nodes: tuple[NodeInfo, ...]) -> list[list[NodeId]]:
        if not nodes:
            return []
        counts = self.view.cluster_record()
        shards = counts.group_shards if self.kind is ShardKind.GROUP else counts.state_shards
        places = [placement.PlacementNode(node.node_id, node.rack) for node in nodes]
        names = [election_name(self.kind, shard) for shard in range(shards)]
        owners = placement.plan(names, places, {}, text=lambda name: name).placements
        ranks = []
        for name in names:
            owner = owners[name].leader
            rest = [node.node_id for node in placement.ranking(name, places)]
            ranks.append([owner, *(node_id for node_id in rest if node_id != owner)])
        return ranks
