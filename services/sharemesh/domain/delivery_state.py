"""Delivery states, acknowledge types and causes, with their numbers on the wire (RS-1, RS-2)."""

from enum import IntEnum


class DeliveryState(IntEnum):
    """State of one record for one share group (spec RS-1)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """What a consumer says of a record it holds (spec RS-2)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Cause(IntEnum):
    """Why the delivery state of records changed; stored with every state record."""

    UNSPECIFIED = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    GAP = 4
    LOCK_EXPIRY = 5
    SESSION_CLOSE = 6
    LOG_START = 7
    ADMIN = 8
    INITIALIZE = 9
    LEADER_CHANGE = 10
    SNAPSHOT = 11
    DELETE = 12
    IMPORT = 13
    DELIVERY_LIMIT = 14
