"""The bearer token that a caller shows: from a file, read again when it was replaced (IDN-8)."""

import logging
from pathlib import Path

from sharemesh.domain.bearer_tokens import TOKEN_CHARS_MAX
from sharemesh.rpc.tls import AUTHORIZATION, RENEWAL_LOOK_MS

TOKEN_LOOK_MS = RENEWAL_LOOK_MS
"""How often the file is looked at, when it is used."""

_log = logging.getLogger(__name__)


class TokenFileError(Exception):
    """A token file cannot be used; the message names it and holds nothing of what is in it."""


class ShownToken:
    """What a token file says now."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            TokenFileError: It cannot be read, or holds no token.
        """
        self._path = path
        self._said = ""
        self._stamp = _stamp(path)
        self._text = _read(path)

    @property
    def header(self) -> tuple[str, str]:
        """What goes with a call."""
        return AUTHORIZATION, f"Bearer {self._text}"

    def look(self) -> bool:
        """Read the file again if it was replaced; return whether the token is another one."""
        try:
            stamp = _stamp(self._path)
            if stamp == self._stamp:
                return False
            text = _read(self._path)
        except TokenFileError as error:
            if str(error) != self._said:
                self._said = str(error)
                _log.warning("token file not read again: %s", error)
            return False
        self._said = ""
        self._stamp = stamp
        changed, self._text = text != self._text, text
        return changed


def _stamp(path: Path) -> tuple[int, int, int]:
    """Return what differs after a file, or a link on the way to it, was replaced."""
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return found.st_mtime_ns, found.st_ino, found.st_size


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(TOKEN_CHARS_MAX + 2)  # and the end of a line
    except OSError as error:
        raise _unreadable(path, error) from error
    text = data.decode("ascii", "replace").strip()
    if not text or len(text) > TOKEN_CHARS_MAX or not text.isprintable() or not text.isascii():
        raise TokenFileError(
            f"the token file {path} does not hold one line of 1 to {TOKEN_CHARS_MAX} printable "
            "ASCII characters"
        )
    return text


def _unreadable(path: Path, error: OSError) -> TokenFileError:
    return TokenFileError(f"cannot read the token file {path}: {error.strerror}")
