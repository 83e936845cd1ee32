"""Bugs of access: rights that are looked at once and not again; members that are anybody's."""

from sharemesh.domain.share_group.group import GroupMember
from sharemesh.domain.share_session import ShareSessions
from sharemesh.group_coordinator.member_stream import MemberStream
from sharemesh.share_leader.partition.open_streams import OpenStreams
from sharemesh.share_leader.requests.acquisition import FetchAcquisition
from sharemesh.share_leader.requests.fetch_response import FetchResponse
from tests.simulation.patching import Patches


class _MayEverything:
    """In the place of a reader: nothing is ever lost; all else is the reader's."""

    def __init__(self, reader):
        self._reader = reader

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def lost(self, _partitions):
        return {}


def rights_are_not_checked_after_a_wait(patch: Patches) -> None:
    """What was allowed when a fetch began is acquired and handed out."""
    real = FetchAcquisition.take
    patch.setattr(
        FetchAcquisition,
        "take",
        lambda acquisition, runners, owner, order, reader: real(
            acquisition, runners, owner, order, _MayEverything(reader)
        ),
    )
    patch.setattr(FetchResponse, "with_records", lambda _response: [])


def revoked_streams_stay_open(patch: Patches) -> None:
    """A change of rules is seen by the next request only."""
    patch.setattr(OpenStreams, "rights_changed", lambda _streams: None)


def assignments_are_pushed_whatever_was_revoked(patch: Patches) -> None:
    """A heartbeat stream tells all that is assigned, as when its member joined."""
    real = MemberStream.__init__

    def begin(member, stream, group_id, member_id, check):
        def lenient(message):
            if not message.HasField("assignment"):
                check(message)

        real(member, stream, group_id, member_id, lenient)

    patch.setattr(MemberStream, "__init__", begin)


def members_are_anybodys(patch: Patches) -> None:
    """A coordinator takes the word of everybody who knows the id of a member."""
    patch.setattr(GroupMember, "belongs_to", lambda _member, _principal: True)


def share_sessions_are_anybodys(patch: Patches) -> None:
    """A leader takes the word of everybody who knows the id of a member."""
    real = ShareSessions._existing

    def existing(sessions, key, principal):
        session = sessions.get(key)
        return real(sessions, key, principal) if session is None else session

    patch.setattr(ShareSessions, "_existing", existing)
