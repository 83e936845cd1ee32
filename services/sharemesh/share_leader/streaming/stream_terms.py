"""What the first message of a Consume stream fixes."""

from dataclasses import dataclass

from sharemesh.ports.network import CallTime
from sharemesh.share_leader.requests.access import Reader
from sharemesh.share_leader.requests.acquisition import FetchOrder


@dataclass(frozen=True, slots=True)
class StreamTerms:
    """Who consumes, and how; the acquire mode of the order may change later."""

    reader: Reader
    order: FetchOrder  # max_records and max_bytes: of one message
    min_bytes: int
    max_wait_ms: int
    record_format: int
    time: CallTime
