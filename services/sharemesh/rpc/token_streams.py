"""Streams whose callers are known by tokens: they last as long as the last one shown (IDN-7)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sharemesh.ports.network import CallContext, CallFailedError, Failure

_Key = tuple[str, str]


@dataclass(slots=True)
class _Shown:
    """What one principal has shown on one connection, while it has streams there."""

    ends_s: float
    streams: dict[asyncio.Timeout, None] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None


class TokenStreams:
    """The open streams of principals by connection, and until when they are authenticated."""

    def __init__(self) -> None:
        self._shown: dict[_Key, _Shown] = {}

    def __len__(self) -> int:
        return len(self._shown)

    def show(self, caller: CallContext, for_ms: int) -> None:
        """A call came with a token: streams of the same caller last as long as it, if longer."""
        shown = self._shown.get(_key(caller))
        if shown is not None:
            shown.ends_s = max(shown.ends_s, _ends_s(for_ms))

    @contextmanager
    def bound(self, caller: CallContext) -> Iterator[asyncio.Timeout | None]:
        """Return what bounds a stream of this caller; enter it around the handler."""
        if caller.proven_for_ms is None:
            yield None
            return
        key = _key(caller)
        shown = self._shown.get(key)
        if shown is None:
            shown = self._shown[key] = _Shown(_ends_s(caller.proven_for_ms))
            self._arm(key, shown)
        end = asyncio.timeout(None)
        shown.streams[end] = None
        try:
            yield end
        finally:
            del shown.streams[end]
            if not shown.streams and self._shown.get(key) is shown:
                del self._shown[key]
                if shown.timer is not None:
                    shown.timer.cancel()

    def _arm(self, key: _Key, shown: _Shown) -> None:
        loop = asyncio.get_running_loop()
        shown.timer = loop.call_at(shown.ends_s, self._due, key, shown)

    def _due(self, key: _Key, shown: _Shown) -> None:
        """End the streams, unless a later token was shown meanwhile.

        They end over some turns of the loop: a stream that begins then is none of them.
        """
        now_s = asyncio.get_running_loop().time()
        if shown.ends_s > now_s:
            self._arm(key, shown)
            return
        del self._shown[key]
        for end in shown.streams:
            end.reschedule(now_s)


def token_ended(method: str) -> CallFailedError:
    """Return how a stream ends whose last token has expired."""
    return CallFailedError(
        Failure.UNAUTHENTICATED,
        f"{method}: the token of this stream has expired: open it anew with a newer one, or show "
        "one in time with any call on the same connection",
        stale=True,
    )


def _key(caller: CallContext) -> _Key:
    return caller.peer, caller.principal


def _ends_s(left_ms: int) -> float:
    return asyncio.get_running_loop().time() + left_ms / 1_000
