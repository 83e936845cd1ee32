"""Fences: who may write a log (LOG-4, LOG-7)."""

from sharemesh.codec.segment import FENCES, fence_name
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import FencedError


class Fences:
    """The fence directory of one log, as the owner of one epoch sees it. All calls block."""

    def __init__(self, disk: Disk, log_path: str, epoch: int) -> None:
        self._disk = disk
        self._directory = f"{log_path}/{FENCES}"
        self._log_path = log_path
        self._own = fence_name(epoch)
        self._epoch = epoch

    def claim(self) -> None:
        """Create one's own fence, durably.

        Raises:
            FencedError: A fence at or above one's epoch exists.
        """
        self._disk.make_directory(self._directory)
        names = self._disk.list(self._directory)
        if names and names[-1] >= self._own:
            raise self._fenced_by(names)
        try:
            self._disk.create(f"{self._directory}/{self._own}").close()
        except FileExistsError:
            raise self._fenced_by([self._own]) from None
        self._disk.sync_directory(self._directory)
        self.look()

    def look(self) -> None:
        """Check that the own fence exists and is the highest.

        Raises:
            FencedError: It is not, or the check itself failed (which must count as fenced).
        """
        try:
            names = self._disk.list(self._directory)
        except OSError as error:
            raise FencedError(
                f"log {self._log_path}: cannot list its fences ({error}); epoch "
                f"{self._epoch} writes nothing more"
            ) from error
        if not names or names[-1] != self._own:
            raise self._fenced_by(names)

    def drop_lower(self) -> None:
        """Delete the fences of lower epochs; call it after the take-over is durable."""
        for name in self._disk.list(self._directory):
            if name < self._own:
                self._disk.delete(f"{self._directory}/{name}")

    def _fenced_by(self, names: list[str]) -> FencedError:
        if names and names[-1] >= self._own:
            return FencedError(
                f"log {self._log_path}: epoch {self._epoch} is fenced by epoch {int(names[-1])}",
                fence_epoch=int(names[-1]),
            )
        return FencedError(f"log {self._log_path}: the fence of epoch {self._epoch} is missing")
