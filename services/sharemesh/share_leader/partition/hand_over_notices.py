"""What one Consume stream says and hears of hand-overs (spec HND-4, HND-9)."""

import asyncio
from collections.abc import Callable

from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.share_session import ShareSession
from sharemesh.v1 import share_leader_pb2 as pb


class HandOverNotices:
    """Of a member that goes on with its records at the next leader."""

    def __init__(
        self,
        session: ShareSession,
        put: Callable[[pb.ConsumeResponse], None],
        put_handed_over: Callable[[TopicPartition, int], None],
    ) -> None:
        """``put`` sends a message behind all that waits, ``put_handed_over`` with the next one."""
        self.session = session
        self._put = put
        self._put_handed_over = put_handed_over
        self._last_id = 0
        self._heard_id = 0
        self._heard = asyncio.Event()
        self._has_told = False

    def handed_over(self, partition: TopicPartition, leader_epoch: int) -> None:
        """Tell the member that its locks in a partition live on elsewhere after this epoch."""
        self._has_told = True
        self._put_handed_over(partition, leader_epoch)

    def heard(self, echo_id: int) -> None:
        """The member has sent an echo back: it has all that was sent before."""
        self._heard_id = max(self._heard_id, echo_id)
        self._heard.set()

    async def until_received(self) -> None:
        """Return once the member has all that waits for it now."""
        self._last_id += 1
        echo_id = self._last_id
        self._put(pb.ConsumeResponse(echo_id=echo_id))
        while self._heard_id < echo_id:
            self._heard.clear()
            await self._heard.wait()

    async def until_told(self) -> None:
        """Return once the member has heard of all hand-overs; at once if there were none."""
        if self._has_told:
            self._has_told = False
            await self.until_received()
