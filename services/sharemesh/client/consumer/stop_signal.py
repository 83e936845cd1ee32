"""SIGTERM ends ``run`` as ``stop`` does, where the program has not said what it means (CL-46)."""

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
        """Stop all; a second signal changes nothing."""
        for stop in list(self.stops):
            stop()


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
        handler.stops.remove(stop)
        if not handler.stops and signal.getsignal(signal.SIGTERM) is handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
