"""Die with the parent: also a program of its own, ``parent_death_signal.py PARENT_PID COMMAND…``.

It imports little, because it stands in front of programs such as etcd.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent_pid: int) -> None:
    """Let the kernel kill this process when ``parent_pid`` ends; kept over exec.

    Does nothing where the kernel is not Linux: there the supervisor's stop must do.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it ended before we asked
        os._exit(1)


def main(arguments: list[str]) -> None:
    """Tie this process to its parent and become the command."""
    die_with(int(arguments[0]))
    os.execv(arguments[1], arguments[1:])  # noqa: S606 - the supervisor's own command


if __name__ == "__main__":
    main(sys.argv[1:])
