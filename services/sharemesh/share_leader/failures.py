"""Maps every exception to the error code and message of the response to a member."""

import asyncio
import logging

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.shard_log import FencedError, LogFailedError

Outcome = tuple[ErrorCode, str]
"""An error code, and the message that goes with it."""
_log = logging.getLogger(__name__)


def outcome_of(what: str, of: object, error: BaseException) -> Outcome:
    """Return the error code and message for what ended work; the unexpected is logged too.

    Args:
        what: The work, as in "reading the state": the beginning of the message.
        of: Where, as in a log line: a share partition, a topic-partition.
        error: What it ended with.
    """
    match error:
        case RefusedError():
            return error.error, error.message
        case FencedError() | LogFailedError():
            return (
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the leader epoch has ended ({error}); refresh metadata",
            )
        case asyncio.CancelledError():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, "this process stops; refresh metadata"
        case _:
            _log.error("%s of %s failed", what, of, exc_info=error)
            return ErrorCode.UNKNOWN_SERVER_ERROR, f"{what} failed: {error!r}"
