"""Ctrl-C and SIGTERM end a command that is under way with its summary, and an exit code."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from sharemesh.cli.entry import INTERRUPTED

TERMINATED = 143


@dataclass(slots=True)
class Interrupts:
    """What was heard of the two, and what is done about it.

    Attributes:
        code: The exit code of the one that came last; 0 if none did.
        count: How many came.
    """

    code: int = 0
    count: int = 0
    _gentle: Callable[[], None] | None = None

    @contextmanager
    def first_only_noted(self, wake: Callable[[], None]) -> Iterator[None]:
        """Let the first signal call ``wake``; only further ones raise.

        An exception may come between any two steps of the program, and leave a client's locks
        taken; so what must be told afterwards looks at ``code`` itself.
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

    def heard(self, number: int, _frame: FrameType | None) -> None:
        """Take note of a signal; the handler of both.

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
    before = {each: signal.signal(each, noted.heard) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
