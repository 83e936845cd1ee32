"""SIGTERM ends ``run`` as ``stop`` does, where the program has not said what it means (CL-46)."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class SigtermStops:
    """The handler of SIGTERM while consumers run: it calls ``stop`` of each."""

    def __init__(self) -> None:
        self.stops: list[Callable[[], object]] = []

    def __call__(self, _: int, __: FrameType | None) -> None:
        """Stop all; a second signal changes nothing.

        A ``stop`` that raises RuntimeError has no event loop any more: nothing runs there that
        could end. If no other is left, the process ends as if ``run`` had ended.
        """
        for stop in list(self.stops):
            try:
                stop()
            except RuntimeError:
                self.stops.remove(stop)
        if not self.stops:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def stopped_by_sigterm(stop: Callable[[], object]) -> Iterator[None]:
    """Call ``stop`` on SIGTERM: only on the main thread, and where the signal has its default.

    ``stop`` is called between any two instructions of the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    if handler is signal.SIG_DFL:
        handler = SigtermStops()
        signal.signal(signal.SIGTERM, handler)
    if not isinstance(handler, SigtermStops):
        yield
        return
    handler.stops.append(stop)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # its event loop was closed before
            handler.stops.remove(stop)
        if not handler.stops and signal.getsignal(signal.SIGTERM) is handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Forks:
    """Gives SIGTERM its default action in a forked process, in which no consumer runs.

    The thread that forks holds SIGTERM back meanwhile: what reaches the new process before it has
    the default action would be lost.
    """

    def __init__(self) -> None:
        self._held_back = threading.local()

    def before(self) -> None:
        """Hold SIGTERM back."""
        self._held_back.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def in_parent(self) -> None:
        """Let SIGTERM through again."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._held_back.mask)

    def in_child(self) -> None:
        """Give SIGTERM its default action, and let it through."""
        if isinstance(signal.getsignal(signal.SIGTERM), SigtermStops):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._held_back.mask)


if hasattr(os, "register_at_fork"):
    _forks = Forks()
    os.register_at_fork(
        before=_forks.before, after_in_parent=_forks.in_parent, after_in_child=_forks.in_child
    )
