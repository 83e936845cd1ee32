"""What a leader counts; telemetry reads it (spec section 27)."""

from collections import Counter
from dataclasses import dataclass, field

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.ids import TopicId


@dataclass(slots=True)
class LeaderCounters:
    """Totals since the process began."""

    records_produced: int = 0
    bytes_produced: int = 0
    records_acquired: int = 0
    bytes_delivered: int = 0
    locks_expired: int = 0  # records (spec LK-10)
    sessions_evicted: int = 0  # by loss of their connection (spec SES-12)
    fetches_expired: int = 0  # long polls that ended by max_wait_ms
    invariants_checked: int = 0
    invariants_broken: int = 0
    acknowledged: Counter[AcknowledgeType] = field(default_factory=Counter)  # offsets (MET-1)
    fetch_requests: Counter[TopicId] = field(default_factory=Counter)  # spec MET-3
    failed_fetch_requests: Counter[TopicId] = field(default_factory=Counter)
    acknowledge_requests: Counter[TopicId] = field(default_factory=Counter)
    failed_acknowledge_requests: Counter[TopicId] = field(default_factory=Counter)
