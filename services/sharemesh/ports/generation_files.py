"""The files of generations, wherever Spark left them: a directory, or an object store."""

from collections.abc import Callable
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class FilesUnreachableError(Exception):
    """Nobody told what lies there: the same question may be answered later."""


class GenerationFiles(Protocol):
    """Files that are read; a disk is one such place. Paths are relative, ``/``-separated.

    Everything but ``run`` blocks, and may raise FilesUnreachableError.
    """

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run a blocking job in a thread and return its result, or raise its error."""
        ...

    def list(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; an absent folder is empty."""
        ...

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Return up to ``size`` bytes from ``offset``.

        Raises:
            FileNotFoundError: There is no such file.
        """
        ...
