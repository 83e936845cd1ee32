"""Loads a program; Ctrl-C meanwhile ends the process at once, without a traceback."""

import importlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130

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
        yield  # somebody else's, or ignored: it stays so
        return
    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
