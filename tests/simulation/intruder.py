"""A principal that may read the group and knows ids of members: none is its own (BND-26)."""

import asyncio
from random import Random

from sharemesh import methods
from sharemesh.domain.share_session import FINAL_EPOCH
from sharemesh.ports.cluster import Role
from sharemesh.ports.network import Caller, CallFailedError
from sharemesh.v1 import group_coordinator_pb2 as group_pb
from sharemesh.v1 import share_leader_pb2 as leader_pb
from tests.simulation.journal import SimJournal
from tests.simulation.world import World

NAME = "intruder"
GAP_S = (0.1, 1.0)


class Intruder:
    """Speaks for living members, and joins under no id: whoever answers it has taken its word."""

    def __init__(self, world: World, journal: SimJournal, group: str) -> None:
        self._world = world
        self._journal = journal
        self._group = group
        self._rng = Random(world.rng.getrandbits(64))
        self.process, self._environment = world.new_client(NAME)

    def start(self) -> None:
        """Begin, and go on until the run ends."""
        self.process.start(self._run())

    async def _run(self) -> None:
        caller = self._environment.open_caller()
        while True:
            await asyncio.sleep(self._rng.uniform(*GAP_S))
            living = [name for name, each in self._journal.members.items() if each.process.alive]
            if not living:
                continue
            member = self._rng.choice(sorted(living))
            try:
                await self._rng.choice((self._speak, self._close))(caller, member)
            except CallFailedError:
                self._world.event_log.counters["calls of the intruder that failed"] += 1

    async def _speak(self, caller: Caller, member: str) -> None:
        """Let the member leave, or go on, at a coordinator."""
        node = self._rng.choice(self._world.role_nodes(Role.GROUP_COORDINATOR))
        epoch = self._rng.choice((-1, -1, 1, 2, 3))
        request = group_pb.ShareGroupHeartbeatRequest(
            group_id=self._group, member_id=member, member_epoch=epoch
        )
        answer = await caller.call(methods.SHARE_GROUP_HEARTBEAT, request, to=node.address)
        self._judge(answer.error_code, f"a heartbeat with epoch {epoch}", member)

    async def _close(self, caller: Caller, member: str) -> None:
        """End the member's share session at a leader."""
        node = self._rng.choice(self._world.role_nodes(Role.SHARE_LEADER))
        request = leader_pb.ShareAcknowledgeRequest(
            group_id=self._group, member_id=member, share_session_epoch=FINAL_EPOCH
        )
        answer = await caller.call(methods.SHARE_ACKNOWLEDGE, request, to=node.address)
        self._judge(answer.error_code, "the end of a share session", member)

    def _judge(self, error: int, what: str, member: str) -> None:
        self._world.event_log.counters[f"answers to the intruder: {error}"] += 1
        if not error:
            self._world.event_log.violation(
                self._world.now_s, f"{what} of member {member} was taken from another principal"
            )
