"""Where the key set of an issuer is read from: a file, or an https address (spec IDN-6)."""

import asyncio
import contextlib
import http.client
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from sharemesh.domain.bearer_tokens import TOKEN_CHARS_MAX

KEY_SET_BYTES_MAX = 256 * 1024
FETCH_TIMEOUT_MS = 10_000
_STEP_TIMEOUT_S = 5.0
_HTTPS_PORT = 443


class KeySourceError(Exception):
    """The key set could not be read; the message says from where and why."""


class KeySource(Protocol):
    """One place of a key set."""

    async def read(self) -> bytes:
        """Return the document, at most ``KEY_SET_BYTES_MAX``.

        Raises:
            KeySourceError: It cannot be read, in time and whole.
        """
        ...


@dataclass(frozen=True, slots=True)
class KeySetFile:
    """A key set in a file."""

    path: Path

    async def read(self) -> bytes:
        """Return the document (see ``KeySource``)."""
        try:
            with self.path.open("rb") as file:
                data = file.read(KEY_SET_BYTES_MAX + 1)
        except OSError as error:
            raise KeySourceError(f"cannot read {self.path}: {error.strerror}") from error
        return _bounded(data, str(self.path))


class KeySetAddress:
    """A key set behind https; certificate authority and token are read at each fetch."""

    def __init__(
        self, url: str, *, authority: Path | None = None, token_file: Path | None = None
    ) -> None:
        """Take the address apart.

        Raises:
            KeySourceError: It is no https URL with a host.
        """
        parts = urlsplit(url)
        try:
            port = parts.port or _HTTPS_PORT
        except ValueError:
            port = 0
        if parts.scheme != "https" or not parts.hostname or not port or parts.username:
            raise KeySourceError(f"{url!r} is no https URL with a host and without a user")
        self._url = url
        self._host, self._port = parts.hostname, port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._authority = authority
        self._token_file = token_file

    async def read(self) -> bytes:
        """Return the document (see ``KeySource``); the socket is closed when time is over."""
        try:
            connection = self._connection()
            headers = {"Accept": "application/jwk-set+json, application/json"} | self._proof()
        except (OSError, ValueError) as error:
            raise KeySourceError(f"cannot ask {self._url}: {error}") from error
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_MS / 1_000):
                data = await asyncio.to_thread(self._get, connection, headers)
        except TimeoutError:
            raise KeySourceError(
                f"{self._url} gave no whole answer in {FETCH_TIMEOUT_MS} ms"
            ) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise KeySourceError(f"cannot read {self._url}: {_words(error)}") from error
        finally:
            _break_off(connection)
        return _bounded(data, self._url)

    def _connection(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=self._authority)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=_STEP_TIMEOUT_S, context=context
        )

    def _proof(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        text = self._token_file.read_text(encoding="ascii").strip()
        if not 0 < len(text) <= TOKEN_CHARS_MAX or not text.isprintable():
            raise ValueError(f"{self._token_file} holds no token")
        return {"Authorization": f"Bearer {text}"}

    def _get(self, connection: http.client.HTTPSConnection, headers: dict[str, str]) -> bytes:
        """Blocks; runs in a thread, and ends when the socket is closed from outside."""
        connection.request("GET", self._target, headers=headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise ValueError(f"it answers HTTP status {answer.status}")
        return answer.read(KEY_SET_BYTES_MAX + 1)


def _break_off(connection: http.client.HTTPSConnection) -> None:
    with contextlib.suppress(OSError):
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def _words(error: Exception) -> str:
    """Return an error's words; http.client's may hold what the server sent."""
    if isinstance(error, http.client.HTTPException):
        return type(error).__name__
    return str(error) or type(error).__name__


def _bounded(data: bytes, source: str) -> bytes:
    if len(data) > KEY_SET_BYTES_MAX:
        raise KeySourceError(f"{source} is larger than {KEY_SET_BYTES_MAX} bytes")
    return data
