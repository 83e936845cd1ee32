"""OpenTelemetry's own variables (``OTEL_*``): what is sampled, and where and how often it is sent.

Names and values follow OpenTelemetry's specification: an empty variable is an unset one, a variable
of one signal wins over the general one, and a value that cannot be used is reported once and leaves
the default. docs/reference/telemetry-variables.md lists all of them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sharemesh.telemetry.spans import QUEUE_MAX, Sampler

DEFAULT_ENDPOINT = "http://localhost:4317"
"""OpenTelemetry's; used if an exporter is asked for by name and no endpoint is given."""
TIMEOUT_MS = 5_000
BATCH_MAX = 2_048
SPANS_INTERVAL_MS = 1_000
METRICS_INTERVAL_MS = 15_000
QUEUE_LIMIT = 262_144
"""Spans that may wait at most, whatever a variable asks for: about 128 MB."""
HOUR_MS = 3_600_000

_SAMPLERS = ("always_on", "always_off", "traceidratio")
_HEADER_NAME = re.compile(r"[0-9a-z_.-]+")


@dataclass(frozen=True, slots=True)
class OtlpTarget:
    """How one signal reaches its collector by OTLP over gRPC.

    ``endpoint`` is a URL, or a gRPC target; the latter is encrypted unless it is ``insecure``.
    """

    endpoint: str
    insecure: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = TIMEOUT_MS / 1_000
    gzip: bool = False
    authority: bytes | None = None
    key: bytes | None = None
    certificate: bytes | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the connection is not encrypted: a URL's scheme decides, if there is one."""
        scheme = urlsplit(self.endpoint).scheme
        return scheme == "http" or (self.insecure and scheme != "https")

    @property
    def address(self) -> str:
        """What gRPC connects to: a URL's host and port, its path means nothing to gRPC."""
        url = urlsplit(self.endpoint)
        return url.netloc if url.scheme in {"http", "https"} else self.endpoint


@dataclass(frozen=True, slots=True)
class OtelEnvironment:
    """What the variables say; ``complaints`` are the values that could not be used, in words."""

    disabled: bool
    resource: Mapping[str, str]
    sampler: Sampler
    traces: OtlpTarget | None
    metrics: OtlpTarget | None
    logs: OtlpTarget | None
    queue_max: int
    batch_max: int
    spans_interval_ms: int
    metrics_interval_ms: int
    complaints: tuple[str, ...]


def read_otel_environment(environment: Mapping[str, str], *, endpoint: str = "") -> OtelEnvironment:
    """Return what the ``OTEL_*`` variables say; ``endpoint`` is a setting and wins over theirs."""
    read = _Reader(environment)
    queue_max = read.number("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE_MAX, QUEUE_LIMIT)
    batch_max = read.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", min(BATCH_MAX, queue_max), queue_max)
    return OtelEnvironment(
        disabled=read.flag("OTEL_SDK_DISABLED"),
        resource=read.resource(),
        sampler=read.sampler(),
        traces=read.target("TRACES", endpoint, "OTEL_BSP_EXPORT_TIMEOUT"),
        metrics=read.target("METRICS", endpoint, "OTEL_METRIC_EXPORT_TIMEOUT"),
        logs=read.asked_for("LOGS", endpoint, "OTEL_BLRP_EXPORT_TIMEOUT"),
        queue_max=queue_max,
        batch_max=batch_max,
        spans_interval_ms=read.number("OTEL_BSP_SCHEDULE_DELAY", SPANS_INTERVAL_MS),
        metrics_interval_ms=read.number("OTEL_METRIC_EXPORT_INTERVAL", METRICS_INTERVAL_MS),
        complaints=tuple(dict.fromkeys(read.complaints)),
    )


class _Reader:
    """Reads variables one by one; collects what is wrong with them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.complaints: list[str] = []

    def text(self, *names: str) -> tuple[str, str]:
        """Return the first of these variables that says something, and its value; else empty."""
        for name in names:
            value = self._environment.get(name, "").strip()
            if value:
                return name, value
        return "", ""

    def flag(self, *names: str) -> bool:
        """Return whether the variable is ``true``; nothing else is."""
        name, value = self.text(*names)
        if value.lower() not in {"", "true", "false"}:
            self._complain(name, value, "is neither true nor false; it counts as false")
        return value.lower() == "true"

    def number(self, name: str, default: int, most: int = HOUR_MS) -> int:
        """Return a whole number from 1 to ``most``."""
        name, value = self.text(name)
        if not value:
            return default
        if value.isascii() and value.isdecimal() and 1 <= int(value[:20]) <= most:
            return int(value)
        self._complain(name, value, f"is no whole number from 1 to {most}; {default} is used")
        return default

    def resource(self) -> dict[str, str]:
        """Return the attributes of the resource; one that is malformed drops all of them."""
        name, text = self.text("OTEL_RESOURCE_ATTRIBUTES")
        found: dict[str, str] = {}
        try:
            for pair in filter(None, (each.strip() for each in text.split(","))):
                found.__setitem__(*_pair(pair))
        except ValueError:
            self._complain(name, text, "is not key=value,key=value; none of it is used")
            found = {}
        _, service = self.text("OTEL_SERVICE_NAME")
        return found | {"service.name": service} if service else found

    def sampler(self) -> Sampler:
        """Return which traces are recorded; by default those whose caller is, and all new ones."""
        name, value = self.text("OTEL_TRACES_SAMPLER")
        kind = value.lower().removeprefix("parentbased_")
        if not value:
            return Sampler()
        if kind not in _SAMPLERS:
            offered = ", ".join((*_SAMPLERS, *(f"parentbased_{each}" for each in _SAMPLERS)))
            self._complain(
                name, value, f"is not offered; parentbased_always_on is used (offered: {offered})"
            )
            return Sampler()
        ratio = {"always_on": 1.0, "always_off": 0.0}.get(kind)
        return Sampler(
            self._ratio() if ratio is None else ratio, parent_based=kind != value.lower()
        )

    def _ratio(self) -> float:
        name, value = self.text("OTEL_TRACES_SAMPLER_ARG")
        if not value:
            return 1.0
        try:
            ratio = float(value)
        except ValueError:
            ratio = -1.0
        if 0.0 <= ratio <= 1.0:
            return ratio
        self._complain(name, value, "is no number from 0 to 1; 1 is used")
        return 1.0

    def target(self, signal: str, endpoint: str, timeout: str) -> OtlpTarget | None:
        """Return where a signal is sent, None if nothing asks for it or ``none`` is its exporter.

        ``timeout`` names the variable that bounds an export besides the exporter's own.
        """
        name, exporter = self.text(f"OTEL_{signal}_EXPORTER")
        exporters = {each.strip().lower() for each in exporter.split(",")}
        if exporters - {"", "otlp", "none"}:
            self._complain(name, exporter, "is not offered; otlp is used where an endpoint is set")
        if "none" in exporters:
            return None
        endpoint = endpoint or self.text(*_names(signal, "ENDPOINT"))[1]
        if not endpoint and "otlp" in exporters:
            endpoint = DEFAULT_ENDPOINT
        if not endpoint:
            return None
        self._check_protocol(signal)
        key, certificate = (
            self._file(signal, "CLIENT_KEY"),
            self._file(signal, "CLIENT_CERTIFICATE"),
        )
        if (key is None) != (certificate is None):
            self.complaints.append(
                f"{_names(signal, 'CLIENT_KEY')[1]} and …_CLIENT_CERTIFICATE go together; "
                "neither is used"
            )
            key = certificate = None
        return OtlpTarget(
            endpoint,
            insecure=self.flag(*_names(signal, "INSECURE")),
            headers=self._headers(signal),
            timeout_s=self._timeout_ms(signal, timeout) / 1_000,
            gzip=self._is_gzip(signal),
            authority=self._file(signal, "CERTIFICATE"),
            key=key,
            certificate=certificate,
        )

    def asked_for(self, signal: str, endpoint: str, timeout: str) -> OtlpTarget | None:
        """Return where a signal is sent that an endpoint alone does not switch on (AUD-10)."""
        _, exporter = self.text(f"OTEL_{signal}_EXPORTER")
        return self.target(signal, endpoint, timeout) if exporter else None

    def _check_protocol(self, signal: str) -> None:
        name, value = self.text(*_names(signal, "PROTOCOL"))
        if value.lower() not in {"", "grpc"}:
            self._complain(
                name,
                value,
                "is not offered; grpc is used (a collector's port for it is mostly 4317)",
            )

    def _timeout_ms(self, signal: str, other: str) -> int:
        names = [*_names(signal, "TIMEOUT"), other]
        own, _ = self.text(*names[:2])
        given = [self.number(name, TIMEOUT_MS) for name in (own, other) if self.text(name)[1]]
        return min(given, default=TIMEOUT_MS)

    def _is_gzip(self, signal: str) -> bool:
        name, value = self.text(*_names(signal, "COMPRESSION"))
        if value.lower() not in {"", "none", "gzip"}:
            self._complain(name, value, "is neither gzip nor none; none is used")
        return value.lower() == "gzip"

    def _headers(self, signal: str) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a call. Complaints hold no values of headers: they are secrets."""
        name, text = self.text(*_names(signal, "HEADERS"))
        found = {}
        for number, pair in enumerate(filter(None, text.split(",")), start=1):
            try:
                header, value = _pair(pair)
                header = header.lower()
                sound = _HEADER_NAME.fullmatch(header) and not header.endswith("-bin")
                if not sound or not (value.isascii() and value.isprintable()):
                    raise ValueError(header)
            except ValueError:
                self.complaints.append(
                    f"{name}: header {number} is not name=value in printable ASCII; it is not sent"
                )
            else:
                found[header] = value
        return tuple(found.items())

    def _file(self, signal: str, what: str) -> bytes | None:
        name, path = self.text(*_names(signal, what))
        if not path:
            return None
        try:
            return Path(path).read_bytes()
        except OSError as error:
            self._complain(name, path, f"cannot be read ({error.strerror}); it is not used")
            return None

    def _complain(self, name: str, value: str, what: str) -> None:
        self.complaints.append(f"{name}={value[:100]} {what}")


def _names(signal: str, what: str) -> tuple[str, str]:
    """Return the variables of an option: the signal's, which wins, and the general one."""
    return f"OTEL_EXPORTER_OTLP_{signal}_{what}", f"OTEL_EXPORTER_OTLP_{what}"


def _pair(text: str) -> tuple[str, str]:
    """Return key and value of ``key=value``; the value may be percent-encoded.

    Raises:
        ValueError: There is no equals sign, no key, or the value is no UTF-8.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(text)
    return unquote(key.strip()), unquote(value.strip(), errors="strict")
