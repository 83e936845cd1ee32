"""Who is told that a member's locks ended by time: the Consume stream on which it got them."""

from collections.abc import Callable, Iterable

from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_partition.effects import Lapse
from sharemesh.domain.share_session import SessionKey


class Lapses:
    """From share partitions to the streams of a leader, at most one for each member (HBK-10)."""

    def __init__(self) -> None:
        self._streams: dict[SessionKey, Callable[[int], None]] = {}

    def watch(self, key: SessionKey, lapsed: Callable[[int], None]) -> None:
        """Call back with the time since when a member had locks that ended; replaces an older."""
        self._streams[key] = lapsed

    def unwatch(self, key: SessionKey, lapsed: Callable[[int], None]) -> None:
        """Stop calling back, unless another stream of the member has taken the place."""
        if self._streams.get(key) == lapsed:
            del self._streams[key]

    def tell(self, group_id: GroupId, lapses: Iterable[Lapse]) -> None:
        """Tell those that consume by streams; a unary fetch is heard whenever it asks (HBK-12)."""
        for lapse in lapses:
            lapsed = self._streams.get(SessionKey(group_id, lapse.member_id))
            if lapsed is not None:
                lapsed(lapse.since_ms)
