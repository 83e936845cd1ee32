"""Committed generations of the state log (LOG-19): check, load, commit, withdraw.

``CommitGeneration`` makes a pointer record; the coordinator is the only writer of it. A generation
counts only if a pointer record in the shard's own log names it, and its content must have the
pointer's hash. Loading a shard from one is the ``restore`` of the shard's kind.
"""

from pathlib import PurePosixPath

from sharemesh.codec.generation import (
    COMMITTED,
    FOLDER,
    FORMAT_VERSION,
    MANIFEST,
    GenerationFormatError,
    Manifest,
    States,
    decode_manifest,
    decode_parts,
)
from sharemesh.codec.state_record import decode_record
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.share_state.fold import Floors, content_hash
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import Generation, StateRecord
from sharemesh.ports.generation_files import FilesUnreachableError, GenerationFiles
from sharemesh.ports.shard_log import CorruptLogError, LogFailedError, ShardLog
from sharemesh.runtime.shard_kind import Decision
from sharemesh.v1.share_coordinator_pb2 import CommitGenerationRequest

_HASH_BYTES = 32


class GenerationReader:
    """Generations in a data directory, or wherever else ``files`` lie."""

    def __init__(self, files: GenerationFiles) -> None:
        self._files = files

    async def any(self) -> bool:
        """Whether there is a folder of generations with anything in it."""
        return bool(await self._files.run(lambda: self._files.list(FOLDER)))

    async def hinted_end(self, shard: int) -> int | None:
        """Return where the newest generation that is marked as committed ends; a first guess."""
        return await self._files.run(lambda: self._hinted_end(shard))

    async def read(self, pointer: Generation, shard: int) -> tuple[States, Floors]:
        """Return the content of the generation that a pointer names.

        Raises:
            CorruptLogError: Files are missing or differ from what was committed.
        """
        try:
            states, floors = await self._files.run(lambda: self._read(pointer, shard))
        except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
            raise CorruptLogError(
                f"generation {pointer.generation_id} of shard {shard} cannot be read "
                f"({pointer.path}: {error}); restore it from a backup of the data directory",
                file=pointer.path,
            ) from error
        if content_hash(states, floors) != pointer.content_hash:
            raise CorruptLogError(
                f"generation {pointer.generation_id} of shard {shard} is not what was committed "
                f"({pointer.path}: another content hash); restore it from a backup",
                file=pointer.path,
            )
        return states, floors

    def _hinted_end(self, shard: int) -> int | None:
        for name in sorted(self._files.list(FOLDER), reverse=True):
            if COMMITTED not in self._files.list(f"{FOLDER}/{name}"):
                continue
            try:
                manifest = self._manifest(f"{FOLDER}/{name}/{MANIFEST}")
                return manifest.of_shard(shard).end_offset
            except (OSError, GenerationFormatError):
                continue  # only a hint: the log itself says what is committed
        return None

    def _manifest(self, path: str) -> Manifest:
        return decode_manifest(self._files.read(path))

    def _read(self, pointer: Generation, shard: int) -> tuple[States, Floors]:
        folder = pointer.path.rpartition("/")[0]
        files = self._manifest(pointer.path).of_shard(shard).files
        return decode_parts((self._files.read(f"{folder}/{name}") for name in files), shard)


def asked_generation(request: CommitGenerationRequest, *, now_ms: int) -> Generation:
    """Return the pointer that a request asks to commit.

    Raises:
        RefusedError: INVALID_REQUEST or UNSUPPORTED_VERSION, with the field at fault.
    """
    path = PurePosixPath(request.path)
    problem = ""
    if not request.generation_id:
        problem = "generation_id is empty"
    elif not request.path or path.is_absolute() or ".." in path.parts:
        problem = f"path {request.path!r} does not lie in the data directory"
    elif len(request.content_hash) != _HASH_BYTES:
        problem = f"content_hash has {len(request.content_hash)} bytes, not {_HASH_BYTES}"
    elif request.end_offset <= 0:
        problem = f"end_offset {request.end_offset} holds nothing"
    if problem:
        raise invalid_request(f"generation refused: {problem}")
    if request.format_version != FORMAT_VERSION:
        raise RefusedError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"generation format {request.format_version} is not {FORMAT_VERSION}: "
            "use a Spark application of this version",
        )
    has_history = request.HasField("history_end_offset")
    return Generation(
        generation_id=request.generation_id,
        previous_generation_id=request.previous_generation_id,
        end_offset=request.end_offset,
        path=request.path,
        content_hash=request.content_hash,
        format_version=request.format_version,
        history_end_offset=request.history_end_offset if has_history else -1,
        write_timestamp_ms=now_ms,
    )


def commit_generation(
    machine: ShareStateMachine, asked: Generation, *, log_start: int, committed_end: int
) -> Decision[StateRecord, None]:
    """Decide on a pointer: it must join the log, and follow the newest one.

    Asking again for what is committed already is a success without a record. The same
    generation with a later history end is a new record.

    Raises:
        RefusedError: INVALID_REQUEST; the message says what does not fit.
    """
    current = machine.generation
    newest = "" if current is None else current.pointer.generation_id
    if current is not None and newest == asked.generation_id:
        return _again(current.pointer, asked, committed_end)
    if asked.previous_generation_id != newest:
        raise invalid_request(
            f"generation {asked.generation_id} follows {asked.previous_generation_id or 'none'}, "
            f"but {newest or 'none'} is the newest: another job was first, start over"
        )
    if not log_start <= asked.end_offset <= committed_end:
        raise invalid_request(
            f"generation {asked.generation_id} ends at {asked.end_offset}, outside the committed "
            f"log {log_start} to {committed_end}: make a new one"
        )
    if current is not None and asked.end_offset < current.pointer.end_offset:
        raise invalid_request(
            f"generation {asked.generation_id} ends at {asked.end_offset}, before "
            f"{current.pointer.end_offset} of generation {newest}"
        )
    _check_history(asked, committed_end)
    return Decision((asked,), None)


async def restore(
    machine: ShareStateMachine, shard: int, log: ShardLog, *, reader: GenerationReader
) -> int | None:
    """Load the generation that the log names; return where to replay from, None without one.

    Raises:
        CorruptLogError: The generation cannot be read, or the log begins behind its end.
        LogFailedError: Where generations lie does not answer (LOG-24).
    """
    try:
        return await _restored(machine, shard, log, reader)
    except FilesUnreachableError as error:
        raise LogFailedError(
            f"shard {shard} waits for its generation: {error}; see to the place that the setting "
            "generations names"
        ) from error


async def _restored(
    machine: ShareStateMachine, shard: int, log: ShardLog, reader: GenerationReader
) -> int | None:
    if not log.start_offset and not await reader.any():
        return None
    pointer = None
    hinted = await reader.hinted_end(shard)
    if hinted is not None and log.start_offset <= hinted <= log.committed_end_offset:
        pointer = await _newest_pointer(log, hinted)
    if pointer is None:
        pointer = await _newest_pointer(log, None)
    if pointer is None or not pointer.generation_id:
        return None
    if pointer.end_offset < log.start_offset:
        raise CorruptLogError(
            f"generation {pointer.generation_id} of shard {shard} ends at {pointer.end_offset}, "
            f"but the log begins at {log.start_offset}: records between them are lost",
            offset=pointer.end_offset,
        )
    states, floors = await reader.read(pointer, shard)
    machine.restore(states.items(), floors, pointer.end_offset)
    return pointer.end_offset


async def _newest_pointer(log: ShardLog, from_offset: int | None) -> Generation | None:
    """Return the last generation record from an offset on, one that takes back included."""
    newest = None
    async for chunk in log.replay(from_offset):
        for stored in chunk:
            if stored.key:
                continue
            record = decode_record(stored.key, stored.value)
            if isinstance(record, Generation):
                newest = record
    return newest


def drop_generation(machine: ShareStateMachine, *, now_ms: int, grace_ms: int) -> Generation | None:
    """Return a record that withdraws the generation pointer if it was not renewed for ``grace_ms``.

    None also while some states or floors exist only in the generation: they must be written to the
    log first.
    """
    current = machine.generation
    if current is None or now_ms - current.pointer.write_timestamp_ms < grace_ms:
        return None
    if machine.restored_keys(1) or machine.restored_floor(now_ms=now_ms):
        return None
    pointer = current.pointer
    return Generation("", pointer.generation_id, 0, "", b"", FORMAT_VERSION, -1, now_ms)


def _again(
    pointer: Generation, asked: Generation, committed_end: int
) -> Decision[StateRecord, None]:
    same = (asked.end_offset, asked.path, asked.content_hash) == (
        pointer.end_offset,
        pointer.path,
        pointer.content_hash,
    )
    if not same:
        raise invalid_request(f"generation {asked.generation_id} is committed with another content")
    if asked.history_end_offset <= pointer.history_end_offset:
        return Decision((), None)
    _check_history(asked, committed_end)
    return Decision((asked,), None)


def _check_history(asked: Generation, committed_end: int) -> None:
    if asked.history_end_offset > committed_end:
        raise invalid_request(
            f"history of generation {asked.generation_id} ends at {asked.history_end_offset}, "
            f"past the committed end {committed_end}"
        )
