"""One line an event on stderr: ``key=value`` for people, JSON for collectors."""

import json
import logging
import sys
import time
from typing import TextIO

from sharemesh.domain.printable import escaped
from sharemesh.telemetry.trace_context import current_request

_PLAIN = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}
_QUOTED = frozenset(' "=')


class _LineFormatter(logging.Formatter):
    """Fields of ``extra=`` follow the message; an exception becomes one field.

    A line about a request that is being answered names its trace, unless it names one itself.
    """

    def __init__(self, origin: dict[str, str], *, as_json: bool) -> None:
        super().__init__()
        self._origin = origin
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return one line without its end."""
        fields: dict[str, object] = {
            "time": self._time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("sharemesh."),
            **self._origin,
            "event": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
        request = current_request()
        if request is not None and "trace_id" not in fields:
            fields |= request.context.ids()
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if self._as_json:
            return escaped(json.dumps(fields, default=str, ensure_ascii=False))
        return " ".join(f"{name}={_text(value)}" for name, value in fields.items())

    @staticmethod
    def _time(created: float) -> str:
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
        return f"{whole}.{int(created * 1000) % 1000:03d}Z"


def set_up_logs(
    *, log_format: str, level: str, origin: dict[str, str], stream: TextIO | None = None
) -> None:
    """Let the root logger write lines; ``origin`` (role, node) is in each of them.

    Args:
        log_format: ``text`` (key=value) or ``json``.
        level: Least level written: debug, info, warning, error.
        origin: Fields of every line.
        stream: Default stderr.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_LineFormatter(origin, as_json=log_format == "json"))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(max(logging.WARNING, root.level))
    logging.getLogger("grpc").setLevel(max(logging.WARNING, root.level))


def _text(value: object) -> str:
    text = str(value)
    if text and not _QUOTED.intersection(text) and escaped(text) == text:
        return text
    return escaped(json.dumps(text, ensure_ascii=False))
