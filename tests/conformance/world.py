"""One share partition with a mock clock, a log and a persister around it: the driver's world."""

from dataclasses import dataclass, field, replace

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig, InFlightLimitType
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_partition.effects import (
    Answered,
    Effect,
    Initialized,
    LocksExpired,
    ReadState,
    RecordsAcquired,
    ResolveStartOffset,
    WakeWaiters,
    WriteState,
)
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Configure,
    Event,
    Fence,
    Initialize,
    LogBatch,
    LogStartMoved,
    ReleaseMember,
    StartOffsetResolved,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.state_batch import StateBatch
from tests.conformance.memory_log import MemoryLog
from tests.conformance.memory_persister import MemoryPersister

KEY = SharePartitionKey(GroupId("g"), TopicId(bytes(16)), 0)
START_MS = 1_000_000
KAFKAS = GroupConfig(auto_offset_reset="earliest", in_flight_limit_type=InFlightLimitType.SPAN)
"""The settings that Kafka's histories were recorded under: its in-flight limit counts offsets."""


@dataclass
class Fetched:
    """What one fetch read and acquired."""

    fetch_offset: int
    can_acquire: bool
    log_batches: tuple[LogBatch, ...] | None = None
    acquired: list[tuple[int, int, int]] = field(default_factory=list)
    count: int = 0


class PartitionWorld:
    """Carries effects out at once, in order, unless the persister holds writes."""

    def __init__(self, config: GroupConfig | None = None) -> None:
        self.now_ms = START_MS
        self.config = config or KAFKAS
        self.log = MemoryLog()
        self.persister = MemoryPersister()
        self.leader_epoch = 0
        self.machine: SharePartition | None = None
        self.answers: dict[int, Answered] = {}
        self.initialized: Initialized | None = None
        self.expired_records = 0
        self.wake_ups = 0
        self.validate = False
        self._acquired: RecordsAcquired | None = None
        self._request_ids = 0

    # ---- operations

    def configure(self, **settings) -> None:
        """Change the group's settings from now on."""
        self.config = replace(self.config, **settings)
        if self.machine is not None:
            self.step(Configure(self.config))

    def initialize(self) -> Initialized | None:
        """Make a new machine at the present leader epoch and read its state."""
        self.machine = SharePartition(KEY, self.leader_epoch, self.config)
        self.initialized = None
        self.step(Initialize())
        return self.initialized

    def restart(self, *, mark_fenced: bool = False) -> Initialized | None:
        """Let the next leader take over."""
        if mark_fenced and self.machine is not None:
            self.step(Fence())
        self.leader_epoch += 1
        return self.initialize()

    def fetch(
        self,
        member: str = "m1",
        *,
        max_records: int = 500,
        batch_size: int = 500,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
        fetch_offset: int | None = None,
        max_batches: int | None = None,
        force: bool = False,
    ) -> Fetched:
        """Read the log at the next fetch offset and acquire, if anything can be acquired."""
        machine = self.partition
        offset = machine.next_fetch_offset() if fetch_offset is None else fetch_offset
        fetched = Fetched(offset, machine.can_acquire())
        if not fetched.can_acquire and not force:
            return fetched
        batches, aborted = self.log.read(offset, self.config.isolation_level, max_batches)
        fetched.log_batches = batches
        if batches:
            got = self.acquire(
                member, offset, batches, max_records, batch_size, mode, aborted=aborted
            )
            fetched.acquired = [
                (each.first_offset, each.last_offset, each.delivery_count) for each in got.ranges
            ]
            fetched.count = got.count
        return fetched

    def acquire(
        self,
        member,
        offset,
        batches,
        max_records,
        batch_size=500,
        mode=AcquireMode.BATCH_OPTIMIZED,
        aborted=(),
    ) -> RecordsAcquired:
        """Acquire out of log batches that were read at an offset."""
        self._acquired = None
        self.step(
            Acquire(
                self._next_id(),
                MemberId(member),
                mode,
                batch_size,
                max_records,
                offset,
                tuple(batches),
                self.config.isolation_level,
                tuple(aborted),
            )
        )
        assert self._acquired is not None
        return self._acquired

    def acknowledge(self, member: str, batches: list[tuple[int, int, tuple[int, ...]]]) -> int:
        """Acknowledge; return the request id under which the answer stands or will stand."""
        request_id = self._next_id()
        self.step(
            Acknowledge(
                request_id,
                MemberId(member),
                tuple(AcknowledgementBatch(first, last, types) for first, last, types in batches),
            )
        )
        return request_id

    def release(self, member: str) -> int:
        """Close the member's session; return the request id."""
        request_id = self._next_id()
        self.step(ReleaseMember(request_id, MemberId(member)))
        return request_id

    def move_log_start(self, offset: int) -> None:
        """Delete records before an offset."""
        self.log.start = max(self.log.start, offset)
        self.log.end = max(self.log.end, offset)
        self.step(LogStartMoved(offset))

    def advance(self, duration_ms: int) -> bool:
        """Let the clock jump, then run due expiries one by one; return whether any was due."""
        self.now_ms += duration_ms
        ran = False
        while (due_ms := self.partition.next_deadline_ms) is not None and due_ms <= self.now_ms:
            ran = True
            self.step(Tick(lock_limit=1))
        return ran

    # ---- the shell

    @property
    def partition(self) -> SharePartition:
        """The machine.

        Raises:
            RuntimeError: It was not initialized yet.
        """
        if self.machine is None:
            raise RuntimeError("the partition is not initialized: send init first")
        return self.machine

    def step(self, event: Event) -> None:
        """Send an event and carry its effects out."""
        machine = self.partition
        effects = machine.step(event, now_ms=self.now_ms)
        for effect in effects:
            self._carry_out(machine, effect)
        if self.validate:
            machine.validate()

    def _carry_out(self, machine: SharePartition, effect: Effect) -> None:
        match effect:
            case ReadState():
                self._send(machine, self._read_state())
            case ResolveStartOffset(auto_offset_reset=reset):
                start = self.log.start if reset == "earliest" else self.log.end
                self._send(machine, StartOffsetResolved(start))
            case Initialized():
                self.initialized = effect
            case WriteState():
                self.persister.write(effect, lambda error: self._outcome(machine, effect, error))
            case RecordsAcquired():
                self._acquired = effect
            case Answered():
                self.answers[effect.request_id] = effect
            case LocksExpired(record_count=count):
                self.expired_records += count
            case WakeWaiters():
                self.wake_ups += 1
            case _:
                pass

    def _read_state(self) -> StateRead:
        held = self.persister
        return StateRead(ErrorCode.NONE, held.state_epoch, held.start, held.batches)

    def _outcome(self, machine: SharePartition, write: WriteState, error: ErrorCode) -> None:
        self._send(machine, StateWritten(write.write_id, error))

    def _send(self, machine: SharePartition, event: Event) -> None:
        for effect in machine.step(event, now_ms=self.now_ms):
            self._carry_out(machine, effect)
        if self.validate:
            machine.validate()

    def _next_id(self) -> int:
        self._request_ids += 1
        return self._request_ids


def persisted(first: int, last: int, state: int, delivery_count: int) -> StateBatch:
    """Return a state batch as the persister holds it."""
    return StateBatch(first, last, DeliveryState(state), delivery_count)
