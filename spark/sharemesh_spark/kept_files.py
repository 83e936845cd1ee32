"""Where generations and history are kept: a directory, or an object store with a copy of it here.

A store has no rename, so what makes files count is written last (REP-13): the manifest of a run of
the history or of a generation, and the mark of a committed one. What was written is never changed.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sharemesh.codec.generation import COMMITTED, MANIFEST
from sharemesh.codec.generation import FOLDER as GENERATIONS
from sharemesh.object_store.stored_objects import BadPlaceError, StoredObjects, path_of
from sharemesh.ports.generation_files import FilesUnreachableError

RUNS = "history/runs"
RUN_MANIFEST = "_manifest.json"
CLAIMS = "history/claims"
CLAIM_COUNTS_S = 24 * 60 * 60
"""An older claim belongs to no run that is still at work."""

COPIES = Path("~/.cache/sharemesh/spark")
LOCK = "in-use"
_UNFINISHED = ".new"
_FOLDERS = ((GENERATIONS, MANIFEST), (RUNS, RUN_MANIFEST))
_LAST = {MANIFEST: 1, RUN_MANIFEST: 1, COMMITTED: 2}
_NAME_CHARS = 16


class KeptFilesError(Exception):
    """The place cannot be used; the message says why and what to do."""


class RunTakenError(Exception):
    """Another job publishes the same run of the history; start over."""


class KeptFiles:
    """Files in a directory, which all who need them see: nothing is copied."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def publish(self) -> None:
        """Let others see what is new in the directory."""

    def claim_run(self, number: int, attempt: str, *, now_s: float) -> None:
        """Return if this job alone publishes a run of the history.

        Raises:
            RunTakenError: Another one does, or did.
        """


class StoredFiles(KeptFiles):
    """Files in an object store; ``directory`` is a copy of them while ``kept_in`` is open."""

    def __init__(self, store: StoredObjects, directory: Path) -> None:
        super().__init__(directory)
        self._store = store

    def fetch(self) -> None:
        """Make the copy what the store has: nothing is kept that was never published."""
        for folder, manifest in _FOLDERS:
            found = self._store.tree(folder)
            counts = {path.partition("/")[0] for path in found if path.endswith(f"/{manifest}")}
            for local in self._folders(folder):
                if local.name not in counts and not local.name.endswith(_UNFINISHED):
                    shutil.rmtree(local)
            for path, size in found.items():
                target = self.directory / folder / path
                if path.partition("/")[0] not in counts:
                    continue  # half written, by a job that is at work or was killed
                if not target.exists() or target.stat().st_size != size:
                    self._store.download(f"{folder}/{path}", target)

    def publish(self) -> None:
        """Write what the store does not have, what makes it count last.

        What a killed job left of the same folder is removed before: it would count with the rest.
        """
        for folder, manifest in _FOLDERS:
            stored = self._store.tree(folder)
            for local in self._folders(folder):
                if f"{local.name}/{manifest}" in stored:
                    continue
                for name in [each for each in stored if each.startswith(f"{local.name}/")]:
                    self._store.delete(f"{folder}/{name}")
                    del stored[name]
            missing = [
                path
                for local in self._folders(folder)
                if not local.name.endswith(_UNFINISHED)
                for path in sorted(local.rglob("*"))
                if path.is_file() and not path.name.endswith(".crc")
            ]
            base = self.directory / folder
            for path in sorted(missing, key=lambda path: _LAST.get(path.name, 0)):
                name = path.relative_to(base).as_posix()
                if stored.get(name) != path.stat().st_size:
                    self._store.upload(path, f"{folder}/{name}")

    def claim_run(self, number: int, attempt: str, *, now_s: float) -> None:
        """Leave a claim, then look for others: of two at once at least one sees the other's."""
        run = f"run={number:06d}"
        mine = f"{run}.{attempt}"
        self._store.write(f"{CLAIMS}/{mine}", b"")
        others = [
            name
            for name, at_s in self._store.changed_s(CLAIMS).items()
            if name.startswith(f"{run}.") and name != mine and now_s - at_s < CLAIM_COUNTS_S
        ]
        if others or RUN_MANIFEST in self._store.list(f"{RUNS}/{run}"):
            self._store.delete(f"{CLAIMS}/{mine}")
            shutil.rmtree(self.directory / RUNS / run, ignore_errors=True)
            held = f" (if none is at work, delete {CLAIMS}/{others[0]} there)" if others else ""
            raise RunTakenError(
                f"run {number} of the history in {self._store.name} is another job's{held}; start "
                "over"
            )

    def _folders(self, folder: str) -> list[Path]:
        base = self.directory / folder
        return sorted(path for path in base.iterdir() if path.is_dir()) if base.is_dir() else []


@contextmanager
def kept_in(place: str, work: Path | None) -> Iterator[KeptFiles]:
    """Yield the files of a place: a path, a ``file:`` URI, or a URI of an object store.

    Args:
        place: As the setting ``generations`` names it.
        work: Where the copy of a store is; None: below the user's cache.

    Raises:
        KeptFilesError: It is no place, does not answer, or its copy is in use.
    """
    try:
        path = path_of(place)
    except BadPlaceError as error:
        raise KeptFilesError(str(error)) from error
    if path is not None:
        yield KeptFiles(path)
        return
    name = hashlib.sha256(place.encode()).hexdigest()[:_NAME_CHARS]
    copy = (COPIES.expanduser() if work is None else work) / f"copy-{name}"
    copy.mkdir(parents=True, exist_ok=True)
    store = StoredObjects(place)
    descriptor = os.open(copy / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise KeptFilesError(
                f"another run uses {copy}, the copy of {store.name}: wait for it, or give this "
                "one a --work of its own"
            ) from None
        files = StoredFiles(store, copy)
        try:
            files.fetch()
            yield files
        except FilesUnreachableError as error:
            raise KeptFilesError(str(error)) from error
    finally:
        store.close()
        os.close(descriptor)
