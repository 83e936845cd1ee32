"""Kafka's console share consumer beside our own: what it prints is written into a journal."""

import asyncio
import contextlib
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from sharemesh.client.errors import SharemeshError
from tests.history.journal import Journal
from tests.kafka.jars import HERE as KAFKA
from tests.kafka.jars import java
from tests.kafka_listener.command_line_tools import tool_jars

_TOOL = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_PRINTED = ("print.partition", "print.offset", "print.delivery")
_LINE = re.compile(rb"Partition:(\d+)\tOffset:(\d+)\tDelivery:(\d+)\t(.*)\n")
_IDLE_MS = 30_000
_EPOCHS_EVERY_S = 0.2
LINE_BYTES_MAX = 1 << 20

LeaderEpochs = Callable[[], Awaitable[Mapping[str, int]]]
"""Returns the epoch of each partition's leader ("topic/number")."""


def console_program() -> tuple[str, ...]:
    """Return what the tool is started with.

    Raises:
        KafkaMissingError: There is no Java here, or the jars cannot be had; it says which.
    """
    return (
        *(java(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Dlog4j2.configurationFile=file:{KAFKA / 'log4j2.properties'}",
        *("-cp", f"{tool_jars()}/*", _TOOL),
    )


class KafkaConsole:
    """One run of it; it accepts whatever it prints.

    It does not say under which leader it got a record, which the history needs: leaders are asked
    for all the time. Let it run when none is killed.
    """

    def __init__(self, program: tuple[str, ...], journal: Path, log: Path) -> None:
        self._program = program
        self._journal = journal
        self._log = log
        self.records: dict[tuple[str, int], bytes] = {}
        """What it printed, by partition and offset."""

    async def run(
        self, bootstrap: str, topic: str, group: str, *, limit: int, epochs: LeaderEpochs
    ) -> int:
        """Let it read up to ``limit`` records, or until none come; return its exit code."""
        words = {
            "bootstrap-server": bootstrap,
            "topic": topic,
            "group": group,
            "max-messages": str(limit),
            "timeout-ms": str(_IDLE_MS),
        }
        command = [*self._program, *(word for key in words for word in (f"--{key}", words[key]))]
        for name in _PRINTED:
            command += ["--formatter-property", f"{name}=true"]
        known = dict(await epochs())
        following = asyncio.create_task(_follow(known, epochs))
        journal = Journal(self._journal, self._journal.stem)
        try:
            with self._log.open("wb") as log:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    limit=LINE_BYTES_MAX,
                    env={**os.environ, "KAFKA_LOG_LEVEL": "ERROR"},
                )
            try:
                await self._read(process, topic, known, journal)
                return await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            journal.close()

    async def _read(
        self,
        process: asyncio.subprocess.Process,
        topic: str,
        epochs: Mapping[str, int],
        journal: Journal,
    ) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            found = _LINE.fullmatch(line)
            if found is None:
                continue
            number, offset, count = (int(found[each]) for each in (1, 2, 3))
            partition = f"{topic}/{number}"
            self.records[partition, offset] = found[4]
            journal.delivered(partition, epochs[partition], [(offset, offset, count)])


async def _follow(known: dict[str, int], epochs: LeaderEpochs) -> None:
    while True:
        await asyncio.sleep(_EPOCHS_EVERY_S)
        with contextlib.suppress(SharemeshError):  # who was asked may be gone: the next one knows
            known.update(await epochs())
