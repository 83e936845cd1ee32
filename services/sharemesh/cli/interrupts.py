"""Ctrl-C and SIGTERM: they end a command with its summary and an exit code, never a traceback.

While a program is still being loaded, Ctrl-C ends the process at once. This module imports nothing
that takes time, since until ``load`` is called an interrupt is a traceback.
"""

import importlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
TERMINATED = 143

Program = Callable[[Sequence[str] | None], int]


def load(module: str) -> Program:
    """Return the ``main`` of a module, which may import as much as it likes."""
    with _ended_by_interrupt():
        program: Program = importlib.import_module(module).main
    return program


@contextmanager
def _ended_by_interrupt() -> Iterator[None]:
    """End the process at an interrupt: an exception may get lost within imports."""

    def end(_number: int, _frame: FrameType | None) -> None:
        os._exit(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # another handler, or ignored: left as it is
        return
    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Interrupts:
    """Which signals came, and what is done about the next one.

    Attributes:
        code: The exit code of the one that came last; 0 if none did.
        count: How many came.
    """

    def __init__(self) -> None:
        self.code = 0
        self.count = 0
        self._gentle: Callable[[], None] | None = None

    @contextmanager
    def first_only_noted(self, wake: Callable[[], None]) -> Iterator[None]:
        """Let the first signal call ``wake``; only further ones raise.

        An exception may come between any two steps of the program, and leave a client's locks
        taken; so what must be said afterwards checks ``code`` itself.
        """
        self._gentle = wake
        try:
            yield
        finally:
            self._gentle = None

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Let each signal raise while the user is waited for."""
        kept, self._gentle = self._gentle, None
        try:
            yield
        finally:
            self._gentle = kept

    def received(self, number: int, _frame: FrameType | None) -> None:
        """Record a signal; the handler of both.

        Raises:
            KeyboardInterrupt: It is not the first one, or each one raises now.
        """
        self.code = TERMINATED if number == signal.SIGTERM else INTERRUPTED
        self.count += 1
        if self._gentle is None or self.count > 1:
            raise KeyboardInterrupt
        self._gentle()


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Let both signals raise ``KeyboardInterrupt`` for as long as the context lasts."""
    noted = Interrupts()
    before = {each: signal.signal(each, noted.received) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
