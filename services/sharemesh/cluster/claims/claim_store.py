"""What stands in the coordination store about one topic-partition's claim, and how it changes."""

import logging
from dataclasses import dataclass, replace

from sharemesh.cluster.claims.claim_policy import ClaimPolicy
from sharemesh.cluster.claims.claim_writer import ClaimWriter
from sharemesh.cluster.leadership import EPOCH_MAX
from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import partition_path
from sharemesh.cluster.store.records import AssignmentState, Claim, PartitionAssignment, Trouble
from sharemesh.domain.ids import NodeId, TopicPartition
from sharemesh.ports.coordination import (
    Coordination,
    CoordinationError,
    Delete,
    Guard,
    Put,
    Session,
)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class HeldClaim:
    """A claim in the store; each write under it is guarded by ``revision``.

    A claim that is handed over keeps its create revision, so the revision of its last change
    tells claims apart.
    """

    session: Session
    epoch: int
    revision: int
    generation: int  # of the view: after a restored backup revisions begin again lower
    handing_over: int = 0  # the epoch of who gave it on, and may not have ended yet (HND-13)
    is_given_on: bool = False


class ClaimStore:
    """Each change is one guarded transaction, and raises the leader epoch with the claim."""

    def __init__(
        self,
        partition: TopicPartition,
        coordination: Coordination,
        policy: ClaimPolicy,
        writer: ClaimWriter,
    ) -> None:
        self.name = partition_path(partition)
        self._partition = partition
        self._coordination = coordination
        self._policy = policy
        self._writer = writer
        keys = policy.view.keys
        self._claim_key = keys.claim(partition)
        self._assignment_key = keys.assignment(partition)
        self._trouble_key = keys.trouble(partition)
        self._seen_key = keys.seen_partition(partition)
        self._noted_trouble = False

    async def take(self, session: Session) -> HeldClaim | None:
        """Take the claim and raise the leader epoch in one transaction; None: others did.

        A claim that stands under our lease was handed over to us, or left by a call whose outcome
        we did not learn: it is taken up as it is.

        Raises:
            SessionLostError: ``session`` is lost.
            CoordinationError: The outcome is unknown, or the store cannot be reached.
        """
        stored = self._policy.assignment(self._partition)
        if stored is None:
            return None
        generation = self._policy.view.generation
        standing = self._policy.claim(self._partition)
        if standing is not None:
            if standing.lease_id != session.lease_id:
                return None
            found = standing.value
            return HeldClaim(
                session, found.leader_epoch, standing.mod_revision, generation, found.handing_over
            )
        assignment = self._raised(stored.value, self._policy.me)
        revision = await self._writer.commit(
            [
                Guard(self._claim_key, create_revision=0),
                Guard(self._assignment_key, mod_revision=stored.mod_revision),
            ],
            self._puts(assignment, Put(self._claim_key, b"", leased=True)),
            session=session,
        )
        if revision is None:
            return None
        _log.debug("partition %s epoch %d: claimed", self.name, assignment.leader_epoch)
        return HeldClaim(session, assignment.leader_epoch, revision, generation)

    async def raise_epoch(self, held: HeldClaim, above: int) -> bool:
        """Go above a fence that was found; False if the assignment is no longer ours."""
        stored = await self._coordination.get(self._assignment_key)
        if stored is None:
            return False
        found = records.decode_assignment(stored.value)
        if found.leader != self._policy.me:
            return False
        assignment = self._raised(found, self._policy.me, above=above)
        revision = await self._coordination.commit(
            [self._guard(held), Guard(stored.key, mod_revision=stored.mod_revision)],
            self._puts(assignment, Put(self._claim_key, b"", leased=True)),
            session=held.session,
        )
        if revision is None:
            return False
        held.epoch, held.revision = assignment.leader_epoch, revision
        return True

    async def hand_over(self, held: HeldClaim) -> None:
        """Give the claim to its successor, under the successor's lease; without one, give it up.

        What was led must have ended. Nobody leads in between: the successor begins when it sees
        a claim under its own lease. If its registration changed meanwhile (it ends, it drains, it
        is another process) the claim is relinquished instead, for any standby to take. Nothing is
        done for one that was given on before.

        Raises:
            CoordinationError: The outcome is unknown, or the store cannot be reached.
        """
        if not held.is_given_on and not await self._give_to_successor(held):
            await self.give_up(held)

    async def give_on(self, held: HeldClaim) -> None:
        """Give the claim to its successor while the last state writes are under way (HND-13).

        It must be sure that nothing is granted or appended any more. Without a successor, or if the
        store does not take it, nothing is changed: ``hand_over`` comes later.
        """
        try:
            await self._give_to_successor(held, handing_over=held.epoch)
        except CoordinationError as error:
            _log.warning("partition %s: its claim is given on later: %s", self.name, error)

    async def _give_to_successor(self, held: HeldClaim, *, handing_over: int = 0) -> bool:
        stored = self._policy.assignment(self._partition)
        successor = self._policy.successor(self._partition)
        if stored is None or successor is None:
            return False
        node_id = successor.value.node_id
        assignment = self._raised(stored.value, node_id)
        revision = await self._writer.commit(
            [
                self._guard(held),
                Guard(self._assignment_key, mod_revision=stored.mod_revision),
                Guard(self._policy.view.keys.member(node_id), mod_revision=successor.mod_revision),
            ],
            self._puts(
                assignment,
                Put(self._claim_key, b"", lease_id=successor.lease_id),
                handing_over=handing_over,
            ),
        )
        if revision is None:
            return False
        held.is_given_on = True
        self._policy.note_released(self._partition, held.revision)
        _log.debug("partition %s epoch %d: claim handed over to %s", self.name, held.epoch, node_id)
        return True

    async def give_up(self, held: HeldClaim) -> None:
        """Delete the claim if it is still ours.

        Raises:
            CoordinationError: The outcome is unknown, or the store cannot be reached.
        """
        await self._writer.commit([self._guard(held)], [Delete(self._claim_key)])
        self._policy.note_released(self._partition, held.revision)
        _log.debug("partition %s epoch %d: claim given up", self.name, held.epoch)

    async def forget(self, held: HeldClaim) -> None:
        """Delete the claim and all that is known of a partition whose directories are freed.

        What its leader saw of it may have been written once more since the topic went (KRL-18).
        """
        known = (self._claim_key, self._assignment_key, self._trouble_key, self._seen_key)
        await self._coordination.commit([self._guard(held)], [Delete(key) for key in known])
        self._policy.note_released(self._partition, held.revision)

    async def note_trouble(self, session: Session, why: str) -> None:
        """Record in the store why the partition has no leader, for DescribeCluster."""
        if why:
            self._noted_trouble = True
            value = records.encode_trouble(Trouble(self._policy.me, why))
            await self._coordination.commit(
                [], [Put(self._trouble_key, value, leased=True)], session=session
            )
        elif self._noted_trouble:
            self._noted_trouble = False
            await self._coordination.commit([], [Delete(self._trouble_key)])

    def _guard(self, held: HeldClaim) -> Guard:
        return Guard(self._claim_key, mod_revision=held.revision)

    def _raised(
        self, assignment: PartitionAssignment, leader: NodeId, *, above: int = 0
    ) -> PartitionAssignment:
        epoch = max(assignment.leader_epoch, above) + 1
        if epoch > EPOCH_MAX:
            raise CoordinationError(
                f"leader epoch of {self._assignment_key} is at its end ({EPOCH_MAX}); "
                "check its fences"
            )
        return replace(
            assignment,
            leader=leader,
            standbys=tuple(node_id for node_id in assignment.standbys if node_id != leader),
            leader_epoch=epoch,
            state=AssignmentState.SERVING,
        )

    def _puts(
        self, assignment: PartitionAssignment, claim: Put, *, handing_over: int = 0
    ) -> list[Put]:
        """Return the writes of a new epoch; the claim last, for who acts on seeing it."""
        value = records.encode_claim(
            Claim(assignment.leader, assignment.leader_epoch, handing_over)
        )
        return [
            Put(self._assignment_key, records.encode_assignment(assignment)),
            replace(claim, value=value),
        ]
