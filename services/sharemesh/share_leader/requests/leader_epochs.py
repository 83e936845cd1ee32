"""Leader epochs that clients know, as they come with requests."""

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.v1 import record_log_pb2 as pb


def check_epoch(asked: pb.FetchPartition | pb.ListOffsetsPartition, leader_epoch: int) -> None:
    """Compare the epoch that a client knows with the one here (FET-2).

    Raises:
        RefusedError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
    """
    if not asked.HasField("current_leader_epoch"):
        return
    known = asked.current_leader_epoch
    if known < leader_epoch:
        raise RefusedError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {known} is over, now it is {leader_epoch}; refresh metadata",
        )
    if known > leader_epoch:
        raise RefusedError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"leader epoch {known} is not known here yet, only {leader_epoch}; try again",
        )
