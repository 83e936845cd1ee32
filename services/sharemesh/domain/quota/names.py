"""The names of quotas and the entities that they bind (spec QUO-1)."""

from dataclasses import dataclass
from enum import Enum


class EntityType(Enum):
    """What a quota binds."""

    USER = "user"
    """A principal, for example ``User:jane``."""
    GROUP = "group"
    """A share group, by its id."""


class QuotaName(Enum):
    """What is bounded; ``value`` is the key on the wire, Kafka's where Kafka has the quota."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    """Bytes of record batches a second that a principal produces to one share leader."""
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    """Bytes of record batches a second that one share leader sends to a principal."""
    REQUEST_PERCENTAGE = "request_percentage"
    """Processor time that a principal's calls take in one process, in percent of one core."""
    CONNECTIONS = "connections"
    """Open connections of a principal to one process."""
    STREAMS = "streams"
    """Open streams of a principal in one process."""
    SHARE_SESSIONS = "share_sessions"
    """Share sessions of a principal at one share leader."""
    GROUPS = "groups"
    """Share groups that a principal has made and that exist, at one group coordinator."""
    RECORDS_IN_FLIGHT = "records_in_flight"
    """Acquired records of a principal's members at one share leader."""
    RECORD_RATE = "record_rate"
    """Records a second that one share leader delivers to a share group."""

    @property
    def entity_type(self) -> EntityType:
        """What kind of entity it binds."""
        return EntityType.GROUP if self is QuotaName.RECORD_RATE else EntityType.USER


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """A principal or a group; ``name`` None is the default of all others."""

    entity_type: EntityType
    name: str | None
