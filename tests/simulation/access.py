"""Access rules of a run: who its clients are, and rules that come and go."""

from collections.abc import Iterable
from dataclasses import replace

from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.cluster.acl_table import NODE_PRINCIPAL, AclTable
from sharemesh.cluster.store.acl_rules import AclRule, Permission, add_rules, remove_rules
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.ports.authorizer import Authorizer, Operation, ResourceType
from sharemesh.testing.cluster_records import ClusterRecords
from tests.simulation.engines.engine import CLUSTER
from tests.simulation.loop import Process, SimClock
from tests.simulation.world import World

ABOVE = "User:above"
SEEN_S = 2.0  # so long after a change the last process has seen it
INTRUDER = "User:intruder"
READERS = ("User:reader-0", "User:reader-1", "User:reader-2")


class AccessRules:
    """Every reader may read the groups and topics; rules are taken away, and given back."""

    def __init__(self, world: World, groups: Iterable[str], topics: Iterable[str]) -> None:
        self._world = world
        self._principals: dict[str, str] = {}
        self._missing: dict[AclRule, list[tuple[float, float]]] = {}
        self._records = ClusterRecords(
            SimClock(world.loop), coordination=LocalCoordination(world.store), cluster_id=CLUSTER
        )
        self.rules = [
            AclRule(reader, Permission.ALLOW, Operation.READ, resource, name)
            for reader in READERS
            for resource, names in ((ResourceType.GROUP, groups), (ResourceType.TOPIC, topics))
            for name in names
        ]
        self.rules_of_the_intruder = [replace(each, principal=INTRUDER) for each in self.rules]
        world.authorizer = self._authorizer
        world.super_users = (ABOVE,)
        world.was_refused = self._was_refused
        world.network.principal_of = self._principal_of

    def _authorizer(self, view: WatchedView) -> Authorizer:
        return AclTable(view, super_users=self._world.super_users)

    def _principal_of(self, process: Process) -> str:
        if process.name in self._world.nodes:
            return NODE_PRINCIPAL
        return self._principals.get(process.name, ABOVE)

    def is_called(self, client: str, principal: str) -> None:
        """A client of this name is this principal; one that is not named may do everything."""
        self._principals[client] = principal

    async def give(self, rules: Iterable[AclRule] | None = None) -> None:
        """Store rules; without an argument all of them. One that is there already stays."""
        given = list(rules or self.rules)
        await add_rules(self._records.coordination, self._records.view, given)
        for rule in given:
            times = self._missing.get(rule, [])
            self._missing[rule] = [(begun, min(end, self._world.now_s)) for begun, end in times]

    async def take(self, rules: Iterable[AclRule]) -> None:
        """Remove rules."""
        taken = set(rules)
        for rule in taken:
            self._missing.setdefault(rule, []).append((self._world.now_s, float("inf")))
        held = self._records
        await remove_rules(held.coordination, held.view, lambda rule: rule in taken)

    def _was_refused(self, client: str, topic: str, since_s: float) -> bool:
        """Whether a client may have had no right on a topic or group for a moment since a time."""
        principal = self._principals.get(client, ABOVE)
        return any(
            end_s + SEEN_S >= since_s
            for rule, times in self._missing.items()
            for _, end_s in times
            if rule.principal == principal
            and (rule.resource is ResourceType.GROUP or rule.name == topic)
        )
