"""Shows something again and again, until Ctrl-C."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event

from sharemesh.backends.local.clock import SystemClock
from sharemesh.cli.session import CommandError, CommandSession
from sharemesh.client.errors import SharemeshError

INTERVAL_MIN_S = 0.1
INTERVAL_MAX_S = 3_600.0

Pause = Callable[[float], object]


def _pause(seconds: float) -> None:
    Event().wait(seconds)


def watch(
    session: CommandSession,
    interval_s: float,
    show: Callable[[], object],
    *,
    pause: Pause = _pause,
) -> None:
    """Call ``show`` every ``interval_s`` seconds; a terminal is cleared before.

    A cluster that does not answer for a while is told, and asked again; the first time it is not.

    Raises:
        CommandError: The interval is out of bounds.
        SharemeshError: The cluster does not answer at once.
    """
    if not INTERVAL_MIN_S <= interval_s <= INTERVAL_MAX_S:
        raise CommandError(
            f"--interval {interval_s:g}: must be {INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:g} seconds",
            code=2,
        )
    clock = SystemClock()
    first = True
    while True:
        if session.out.is_terminal and not session.as_json:
            session.out.clear()
        session.say(datetime.fromtimestamp(clock.wall_ms() / 1_000, UTC).strftime("%H:%M:%S UTC"))
        try:
            show()
        except SharemeshError as error:
            if first:
                raise
            session.complain(f"sharemesh: {error}")
        first = False
        sys.stdout.flush()
        pause(interval_s)
