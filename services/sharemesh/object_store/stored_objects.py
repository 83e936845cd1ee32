"""Objects below one URI of a store (``s3://bucket/folder``, ``gs://bucket/folder``) as files.

A store has no rename and no folders: an object is there whole, or not at all. PyArrow is imported
when a store is opened.
"""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from sharemesh.ports.generation_files import FilesUnreachableError

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

SCHEMES = ("s3", "gs")
FILE = "file"
THREADS = 2
GOOGLE_RETRIES_S = 30
"""How long requests to Google's store are repeated; PyArrow's own bound is 15 minutes."""

_GOOGLE_BOUND = "retry_limit_seconds"
Result = TypeVar("Result")


class BadPlaceError(ValueError):
    """A text names no place for files; the message says what to write instead."""


def path_of(place: str) -> Path | None:
    """Return the directory that a path or a ``file:`` URI names; None: it is in an object store.

    Raises:
        BadPlaceError: It is neither.
    """
    scheme, colon, _ = place.partition(":")
    if not colon or "/" in scheme:
        return Path(place)
    if scheme == FILE:
        parts = urlsplit(place)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise BadPlaceError(f"{place!r} names no directory: write file:///path")
        return Path(unquote(parts.path))
    if scheme not in SCHEMES or not place.startswith(f"{scheme}://") or not urlsplit(place).netloc:
        raise BadPlaceError(
            f"{place!r} is no place for files: write a path, file:///path, s3://bucket/folder or "
            "gs://bucket/folder"
        )
    return None


class StoredObjects:
    """The objects below one URI; paths are relative and ``/``-separated.

    Everything but ``run`` blocks. Whatever cannot be asked of the store is FilesUnreachableError,
    which names the URI without a login and its query.
    """

    def __init__(self, uri: str) -> None:
        """Open it; nothing is asked yet."""
        self._uri = uri
        self.name = _without_login(uri)
        self._opened: tuple[FileSystem, str] | None = None
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="object-store")

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run a blocking job in a thread and return its result, or raise its error."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)

    def close(self) -> None:
        """Take no more jobs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def list(self, path: str) -> list[str]:
        """Return the names directly below a folder, sorted; an absent folder is empty.

        They are those of the objects below it: PyArrow shows no folder of Google's store that has
        no object of its own name.
        """
        return list(dict.fromkeys(name.partition("/")[0] for name in self.tree(path)))

    def tree(self, path: str) -> dict[str, int]:
        """Return the size of each object below a folder, by path from there, in order."""
        _, base = self._store()
        above = len(_joined(base, path)) + 1
        found = {
            each.path[above:]: int(each.size)
            for each in self._found(path, recursive=True)
            if each.is_file
        }
        return dict(sorted(found.items()))

    def changed_s(self, path: str) -> dict[str, float]:
        """Return when each object directly below a folder was written, s since the epoch."""
        found = self._found(path, recursive=False)
        times = {each.base_name: each.mtime_ns / 1e9 for each in found if each.is_file}
        return dict(sorted(times.items()))

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Return up to ``size`` bytes from ``offset``.

        Raises:
            FileNotFoundError: There is no such object.
        """

        def read(store: "FileSystem", at: str) -> bytes:
            with store.open_input_file(at) as file:
                file.seek(offset)
                return bytes(file.read(size))

        return self._asked("read", path, read)

    def write(self, path: str, data: bytes) -> None:
        """Write an object anew; it is there whole once this returns."""

        def write(store: "FileSystem", at: str) -> None:
            with store.open_output_stream(at) as file:
                file.write(data)

        self._asked("written", path, write)

    def upload(self, source: Path, path: str) -> None:
        """Write a file of this machine."""

        def upload(store: "FileSystem", at: str) -> None:
            with source.open("rb") as local, store.open_output_stream(at) as file:
                shutil.copyfileobj(local, file)

        self._asked("written", path, upload)

    def download(self, path: str, target: Path) -> None:
        """Write an object to a file of this machine, which gets its name last."""
        part = target.with_name(f"{target.name}.part")

        def download(store: "FileSystem", at: str) -> None:
            with store.open_input_stream(at) as file, part.open("wb") as local:
                shutil.copyfileobj(file, local)

        target.parent.mkdir(parents=True, exist_ok=True)
        self._asked("read", path, download)
        part.rename(target)

    def delete(self, path: str) -> None:
        """Remove an object; absent is fine."""

        def delete(store: "FileSystem", at: str) -> None:
            try:
                store.delete_file(at)
            except FileNotFoundError:
                return

        self._asked("deleted", path, delete)

    def _found(self, path: str, *, recursive: bool) -> "Sequence[FileInfo]":
        from pyarrow.fs import FileSelector

        def found(store: "FileSystem", at: str) -> "Sequence[FileInfo]":
            selector = FileSelector(at, allow_not_found=True, recursive=recursive)
            return tuple(store.get_file_info(selector))

        return self._asked("listed", path, found)

    def _store(self) -> "tuple[FileSystem, str]":
        if self._opened is None:
            import pyarrow as pa
            from pyarrow.fs import FileSystem

            uri = _bounded(self._uri)
            try:
                self._opened = FileSystem.from_uri(uri)
            except (OSError, ValueError, pa.ArrowException) as error:
                why = str(error).replace(uri, self.name)  # PyArrow shows it, login and all
                raise FilesUnreachableError(f"{self.name} cannot be opened: {why}") from None
        return self._opened

    def _asked(self, done: str, path: str, ask: "Callable[[Any, str], Result]") -> Result:
        import pyarrow as pa

        store, base = self._store()
        try:
            return ask(store, _joined(base, path))
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise FilesUnreachableError(f"{self.name}/{path} cannot be {done}: {error}") from error


def _without_login(uri: str) -> str:
    """Return scheme, bucket and folder; a secret key with a slash in it is no part of them."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def _bounded(uri: str) -> str:
    """Return a URI of Google's store with a bound of its own on retries, unless it names one."""
    if not uri.startswith("gs:") or _GOOGLE_BOUND in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}{_GOOGLE_BOUND}={GOOGLE_RETRIES_S}"


def _joined(base: str, path: str) -> str:
    return f"{base.rstrip('/')}/{path}".rstrip("/")
