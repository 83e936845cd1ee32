"""Exit codes of ``sharemesh serve`` and ``sharemesh up``, and the error that carries one."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Why a process ended; a supervisor restarts only what may go better the next time."""

    STOPPED = 0
    FAILED = 1
    SETTINGS = 2
    PORT_IN_USE = 3
    COORDINATION_UNREACHABLE = 4
    OTHER_CLUSTER = 5
    DIRECTORY_UNUSABLE = 6
    DIRECTORY_IN_USE = 7
    STORAGE_UNREACHABLE = 8
    STORAGE_LOGIN_REFUSED = 9
    STORAGE_MISCONFIGURED = 10
    STORAGE_TOO_FEW_REPLICAS = 11
    STORAGE_TAKEN = 12

    @property
    def permanent(self) -> bool:
        """Whether starting again without a change by a human cannot help."""
        return self in _PERMANENT


_PERMANENT = frozenset(
    {
        ExitCode.SETTINGS,
        ExitCode.OTHER_CLUSTER,
        ExitCode.DIRECTORY_UNUSABLE,
        ExitCode.DIRECTORY_IN_USE,
        ExitCode.STORAGE_MISCONFIGURED,
        ExitCode.STORAGE_TAKEN,
    }
)


class StartError(Exception):
    """A process cannot start or continue; the message is one sentence that says what to do."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
