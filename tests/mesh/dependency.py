"""What handlers need in a trial: a service that may be down, and its client in a worker."""

import asyncio
import contextlib
from collections import deque
from pathlib import Path


class Dependency:
    """Answers each line of its clients; while it is down there is nobody to connect to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answered = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Begin to answer, or again."""
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        """Answer nobody; each question that was asked fails."""
        if self._server is not None:
            self._server.close()
            self._server = None
            self.path.unlink(missing_ok=True)
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError):
                while line := await reader.readline():
                    self.answered += 1
                    writer.write(line)
        finally:
            self._writers.discard(writer)
            writer.close()


class DependencyClient:
    """One connection, made when it is needed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()

    async def ask(self) -> None:
        """Ask, and wait for the answer.

        Raises:
            OSError: The service is down.
        """
        async with self._connecting:
            if self._writer is None:
                reader, self._writer = await asyncio.open_unix_connection(self._path)
                self._waiting = deque()
                self._reading = asyncio.create_task(self._read(reader, self._waiting))
            answered = asyncio.get_running_loop().create_future()
            self._waiting.append(answered)
            self._writer.write(b"?\n")
        await answered

    async def _read(
        self, reader: asyncio.StreamReader, waiting: "deque[asyncio.Future[None]]"
    ) -> None:
        with contextlib.suppress(OSError):
            while await reader.readline():
                answered = waiting.popleft()
                if not answered.done():  # its handler was cancelled
                    answered.set_result(None)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for answered in waiting:
            if not answered.done():
                answered.set_exception(ConnectionResetError("the dependency went away"))
