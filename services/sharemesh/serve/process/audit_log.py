"""The audit log of a process as its settings want it: made, written, flushed at the end."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from sharemesh.audit.collected import AuditRecords
from sharemesh.audit.files import AuditFiles, AuditSink, AuditStream
from sharemesh.audit.listener import refused_call
from sharemesh.audit.pump import AuditPump
from sharemesh.audit.trail import AuditTrail
from sharemesh.backends.local.clock import SystemClock
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import LOGS, ServeSettings
from sharemesh.telemetry import names
from sharemesh.telemetry.otel_environment import read_otel_environment
from sharemesh.telemetry.otlp_logs import OtlpLogs
from sharemesh.telemetry.telemetry import Telemetry


class AuditLog:
    """Owns the trail, which the process notes events in, and the thread that writes them."""

    def __init__(
        self,
        settings: ServeSettings,
        node_id: str,
        clock: SystemClock,
        *,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        otel = read_otel_environment(environment, endpoint=settings.telemetry_endpoint)
        self._is_collected = otel.logs is not None and not otel.disabled
        self._settings = settings
        self._node_id = node_id
        self._trail = AuditTrail(node_id, clock.wall_ms, clock.now_ms)
        self._pump: AuditPump | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether lines go anywhere."""
        return self._settings.audit_log != "none" or self._is_collected

    @property
    def trail(self) -> AuditTrail | None:
        """Where events are noted, if any are (AUD-9)."""
        return self._trail if self.is_wanted else None

    @property
    def on_refused(self) -> Callable[[str, str, str, str], None] | None:
        """What hears of calls that the transport refuses."""
        return refused_call(self._trail) if self.is_wanted else None

    def start(self, telemetry: Telemetry, collector: OtlpLogs | None = None) -> None:
        """Open the files and begin to write, and to send lines to a collector (AUD-10).

        Raises:
            StartError: DIRECTORY_UNUSABLE; a file cannot be written.
        """
        sinks = self._sinks()
        records = None if collector is None else AuditRecords(collector)
        if not sinks and records is None:
            return
        pump = self._pump = AuditPump(self._trail, sinks, records)
        trail, observe = self._trail, telemetry.registry.observe
        observe(names.AUDIT_LINES, lambda: [((), trail.noted)])
        observe(names.AUDIT_FOLDED, lambda: [((), trail.folded)])
        observe(names.AUDIT_DROPPED, lambda: [((), trail.dropped + pump.failed)])
        pump.start()

    async def close(self) -> None:
        """Write what is left, within the bound of ``AuditPump.close``."""
        if self._pump is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._pump.close)

    def _sinks(self) -> Sequence[AuditSink]:
        match self._settings.audit_log:
            case "file":
                return (self._files(),)
            case "stdout":
                return (AuditStream(sys.stdout.buffer),)
            case _:
                return ()

    def _files(self) -> AuditFiles:
        settings = self._settings
        directory = settings.audit_directory or settings.data_directory / LOGS
        try:
            return AuditFiles(
                directory,
                self._node_id,
                bytes_max=settings.audit_file_bytes,
                files_max=settings.audit_files,
            )
        except OSError as error:
            raise StartError(
                ExitCode.DIRECTORY_UNUSABLE,
                f"the audit log cannot be written in {directory}: "
                f"{(error.strerror or str(error)).lower()}; correct its owner, or set "
                "audit_directory, or audit_log to stdout or none",
            ) from error
