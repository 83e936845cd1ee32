"""Tells how far a long command is: a bar on a terminal, elsewhere a line now and then."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sharemesh.cli.formatting import counted
from sharemesh.cli.session import CommandSession

BAR_EVERY_S = 0.2
LINE_EVERY_S = 10.0


@contextmanager
def confirmed_so_far(
    session: CommandSession, count: Callable[[], int], *, line_every_s: float = LINE_EVERY_S
) -> Iterator[None]:
    """Tell on stderr, for as long as the context lasts, how many records are confirmed."""
    if session.as_json or not session.err.is_terminal:
        with _each(
            line_every_s,
            count,
            lambda now: session.complain(f"{counted(now, 'record')} confirmed so far"),
        ):
            yield
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} records confirmed"),
        TimeElapsedColumn(),
        console=session.err,
    )
    task = bar.add_task("produced", total=None)
    with bar:
        with _each(BAR_EVERY_S, count, lambda now: bar.update(task, completed=now)):
            yield
        bar.update(task, completed=count())


@contextmanager
def _each(every_s: float, count: Callable[[], int], tell: Callable[[int], None]) -> Iterator[None]:
    """Tell a count that has changed, on a thread, since the command may wait for its input."""
    ended = threading.Event()

    def watch() -> None:
        told = 0
        while not ended.wait(every_s):
            if (now := count()) != told:
                tell(now)
                told = now

    thread = threading.Thread(target=watch, name="sharemesh-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1)
