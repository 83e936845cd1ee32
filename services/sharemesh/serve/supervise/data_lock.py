"""One supervisor per data directory."""

import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType

from sharemesh.serve.exit_codes import ExitCode, StartError


def make_writable(directory: Path) -> None:
    """Create the directory if need be and see that it can be written to.

    Raises:
        StartError: DIRECTORY_UNUSABLE.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unusable(directory, error) from error


def unusable(directory: Path, error: OSError) -> StartError:
    """Return the error of a data directory that cannot be written to."""
    reason = (error.strerror or str(error)).lower()
    advice = "change its owner or set data_directory"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        advice = "make room on that disk or set data_directory"
    return StartError(
        ExitCode.DIRECTORY_UNUSABLE,
        f"cannot write to the data directory {directory}: {reason}; {advice}",
    )


class DirectoryLock:
    """A lock of the kernel on the directory itself: it ends with the process, whatever happens."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor = -1

    def take(self) -> None:
        """Take the lock.

        Raises:
            StartError: DIRECTORY_IN_USE.
        """
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise StartError(
                ExitCode.DIRECTORY_IN_USE,
                f"the data directory {self._directory} is in use by another cluster that runs on "
                "it; stop that one or set data_directory",
            ) from error
        self._descriptor = descriptor

    @property
    def held(self) -> bool:
        """Whether the directory is ours."""
        return self._descriptor >= 0

    def release(self) -> None:
        """Give the lock up. Repeating it is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> "DirectoryLock":
        self.take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
