"""A first start that could not be: what it made in an empty data directory goes away again."""

import shutil
from pathlib import Path


class InitRollback:
    """Looks at a data directory before anything is made in it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._existed = directory.exists()
        self._was_empty = not self._existed or (directory.is_dir() and not any(directory.iterdir()))

    def undo(self) -> None:
        """Remove what was made, if there was nothing before; call it with all processes ended.

        So that a refused start is none: the next one may choose other shard counts, or another
        cluster id. A directory that was there stays, empty.
        """
        if not self._was_empty:
            return
        for made in self._directory.iterdir():
            if made.is_dir() and not made.is_symlink():
                shutil.rmtree(made, ignore_errors=True)
            else:
                made.unlink(missing_ok=True)
        if not self._existed:
            self._directory.rmdir()
