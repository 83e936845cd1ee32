"""Configuration with Kafka's names and bounds (spec CFG, CL-2, CL-3)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sharemesh.client.errors import ConfigError, IllegalArgumentError, InvalidGroupIdError
from sharemesh.domain.setting_values import (
    SettingValueError,
    is_written_whole,
    nearest,
    written_whole,
)

INT32_MAX = 2_147_483_647


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration name: default, bounds (both included), choices, and what it does."""

    name: str
    default: object
    what: str
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()

    def read(self, value: object) -> object:
        """Return the value in its type.

        Raises:
            ConfigError: It is of another type or out of bounds.
        """
        kind = type(self.default)
        if kind is int:
            return self._number(value)
        if callable(self.default) or self.default is None:
            return value
        text = str(value)
        if self.choices and text.lower() not in self.choices:
            raise ConfigError(f"{self.name}={text!r}: must be one of {', '.join(self.choices)}")
        return text.lower() if self.choices else text

    def _number(self, value: object) -> int:
        try:
            number = written_whole(str(value))
        except SettingValueError:
            raise ConfigError(f"{self.name}={value!r}: must be a whole number") from None
        low, high = self.least, self.most
        if (low is not None and number < low) or (high is not None and number > high):
            raise ConfigError(
                f"{self.name}={number}: must be "
                + (f"at least {low}" if high is None else f"from {low} to {high}")
            )
        return number


_BOOLEAN = ("true", "false")

_COMMON = (
    Setting("bootstrap.servers", "", "addresses host:port, separated by commas"),
    Setting("client.id", "", "name of this client in descriptions and logs"),
    Setting("request.timeout.ms", 30_000, "deadline of one request", least=1, most=INT32_MAX),
    Setting(
        "retry.backoff.ms",
        100,
        "first wait before a retry, doubled by each further failure; up to a fifth less at random",
        least=0,
        most=INT32_MAX,
    ),
    Setting("retry.backoff.max.ms", 1_000, "longest wait before a retry", least=0, most=INT32_MAX),
    Setting("metadata.max.age.ms", 300_000, "age at which metadata is read again", least=1),
    Setting("security.protocol", "plaintext", "plaintext or ssl", choices=("plaintext", "ssl")),
    Setting("ssl.ca.location", "", "file with the certificates that servers are checked against"),
    Setting("ssl.certificate.location", "", "file with this client's certificate"),
    Setting("ssl.key.location", "", "file with this client's private key"),
    Setting("sasl.token", "", "bearer token sent with each call"),
    Setting(
        "sasl.token.location",
        "",
        "file with the bearer token instead, read again when it changes, for example one that "
        "Kubernetes projects; needs security.protocol=ssl",
    ),
    Setting(
        "request.headers",
        "",
        "name=value,… sent with each call, for example the principal header of the cluster",
    ),
)

CONSUMER_SETTINGS = (
    *_COMMON,
    Setting("group.id", "", "the share group; needed"),
    Setting("client.rack", "", "rack of this client"),
    Setting(
        "share.acknowledgement.mode",
        "implicit",
        "implicit: the next poll accepts what this poll returned; explicit: acknowledge each",
        choices=("implicit", "explicit"),
    ),
    Setting(
        "share.acquire.mode",
        "batch_optimized",
        "batch_optimized: leaders may acquire more than was asked for, to keep batches whole; "
        "record_limit: never more",
        choices=("batch_optimized", "record_limit"),
    ),
    Setting(
        "max.poll.records",
        500,
        "most records that one poll returns: what takes longer than the lock, taken together, "
        "is delivered again to others",
        least=1,
        most=INT32_MAX,
    ),
    Setting(
        "max.poll.batches.records",
        -1,
        "most records that one poll_batches returns; -1 and 0: 8 times max.poll.records, for what "
        "is done in bulk takes less time for each, and large messages cost leaders less",
        least=-1,
        most=INT32_MAX,
    ),
    Setting("fetch.min.bytes", 1, "bytes to wait for", least=0, most=INT32_MAX),
    Setting("fetch.max.wait.ms", 500, "longest wait for fetch.min.bytes", least=0, most=INT32_MAX),
    Setting(
        "fetch.max.bytes", 52_428_800, "bytes one leader may send ahead", least=0, most=INT32_MAX
    ),
    Setting(
        "prefetch.records",
        -1,
        "records one leader may send ahead of poll; -1: none in explicit mode, in implicit mode "
        "what the application can begin within a second, at most 8 times max.poll.records; what "
        "waits too long for poll is given back uncounted",
        least=-1,
        most=INT32_MAX,
    ),
    Setting("default.api.timeout.ms", 60_000, "time-out of commit_sync", least=0, most=INT32_MAX),
    Setting("key.deserializer", None, "callable bytes -> value; none: bytes"),
    Setting("value.deserializer", None, "callable bytes -> value; none: bytes"),
    Setting("check.crcs", "true", "check the checksum of record batches", choices=_BOOLEAN),
)

PRODUCER_SETTINGS = (
    *_COMMON,
    Setting("batch.size", 65_536, "bytes of one batch", least=0, most=INT32_MAX),
    Setting("linger.ms", 5, "wait for more records of a batch", least=0, most=INT32_MAX),
    Setting("buffer.memory", 33_554_432, "bytes waiting to be sent, in all", least=1),
    Setting("max.block.ms", 60_000, "longest wait for metadata and buffer", least=0),
    Setting("delivery.timeout.ms", 120_000, "time from send to success or failure", least=0),
    Setting("max.request.size", 1_048_576, "largest record batch in bytes", least=1),
    Setting(
        "max.in.flight.requests.per.connection",
        5,
        "requests one partition may have unanswered",
        least=1,
        most=5,
    ),
    Setting(
        "compression.type",
        "none",
        "of record batches",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
    ),
    Setting("enable.idempotence", "true", "no duplicates from retries", choices=_BOOLEAN),
    Setting("acks", "all", "only all: a record is confirmed when it is on disk", choices=("all",)),
    Setting("key.serializer", None, "callable value -> bytes; none: bytes or text as UTF-8"),
    Setting("value.serializer", None, "callable value -> bytes; none: bytes or text as UTF-8"),
)

ADMIN_SETTINGS = (
    *_COMMON,
    Setting("default.api.timeout.ms", 60_000, "time-out of each call", least=0, most=INT32_MAX),
)

REJECTED_BY_SHARE_CONSUMERS = (
    "auto.offset.reset",
    "enable.auto.commit",
    "group.instance.id",
    "isolation.level",
    "partition.assignment.strategy",
    "interceptor.classes",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "group.protocol",
    "group.remote.assignor",
)

_INSTEAD = {
    "auto.offset.reset": "set share.auto.offset.reset of the group",
    "isolation.level": "set share.isolation.level of the group",
    "session.timeout.ms": "set share.session.timeout.ms of the group",
    "heartbeat.interval.ms": "set share.heartbeat.interval.ms of the group",
}


def instead_of(name: str) -> str:
    """Return what to do instead of setting one of ``REJECTED_BY_SHARE_CONSUMERS``."""
    return _INSTEAD.get(name, "remove it: a share group has no such thing")


def _check_mapping(given: object) -> None:
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"settings are a mapping such as {{'bootstrap.servers': 'host:port'}}, found "
            f"{given!r}; connect('host:port') makes clients from an address"
        )


class ClientConfig:
    """Checked settings of one client; read by name in the type of the default."""

    def __init__(self, settings: tuple[Setting, ...], given: Mapping[str, object]) -> None:
        """Check ``given``.

        Raises:
            ConfigError: A name is unknown (the nearest one is named) or a value is not allowed.
        """
        _check_mapping(given)
        known = {setting.name: setting for setting in settings}
        for name in given:
            if name not in known:
                raise ConfigError(_unknown(name, known))
        self._values = {
            name: setting.read(given[name]) if name in given else setting.default
            for name, setting in known.items()
        }
        self.given = frozenset(given)

    def number(self, name: str) -> int:
        """Return a whole number."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """Return true or false."""
        return self._values[name] == "true"

    def text(self, name: str) -> str:
        """Return text; empty where nothing was given."""
        return str(self._values[name])

    def function(self, name: str) -> Callable[..., object] | None:
        """Return a callable, or None.

        Raises:
            ConfigError: Something else was given.
        """
        value = self._values[name]
        if value is None:
            return None
        if not callable(value):
            raise ConfigError(f"{name}={value!r}: must be a function")
        return value


def consumer_config(given: Mapping[str, object]) -> ClientConfig:
    """Return the checked configuration of a share consumer.

    Raises:
        ConfigError: A name or value is not allowed, or rejected for share consumers (spec CL-3).
        InvalidGroupIdError: ``group.id`` is missing or blank.
    """
    _check_mapping(given)
    for name in REJECTED_BY_SHARE_CONSUMERS:
        if name in given:
            raise ConfigError(f"{name} cannot be set on a share consumer; {instead_of(name)}")
    group_id = given.get("group.id")
    if group_id is None or not str(group_id).strip():
        raise InvalidGroupIdError("group.id must be given and not be blank", about="group.id")
    return ClientConfig(CONSUMER_SETTINGS, given)


def producer_config(given: Mapping[str, object]) -> ClientConfig:
    """Return the checked configuration of a producer.

    Raises:
        ConfigError: A name or value is not allowed, or two values contradict each other.
    """
    config = ClientConfig(PRODUCER_SETTINGS, given)
    least = config.number("linger.ms") + config.number("request.timeout.ms")
    if "delivery.timeout.ms" in given and config.number("delivery.timeout.ms") < least:
        raise ConfigError(
            f"delivery.timeout.ms={config.number('delivery.timeout.ms')}: must be at least "
            f"linger.ms + request.timeout.ms = {least}"
        )
    return config


def admin_config(given: Mapping[str, object]) -> ClientConfig:
    """Return the checked configuration of an admin client.

    Raises:
        ConfigError: A name or value is not allowed.
    """
    return ClientConfig(ADMIN_SETTINGS, given)


def bootstrap_addresses(servers: str) -> tuple[str, ...]:
    """Return the addresses of ``host:port,host:port``.

    Raises:
        ConfigError: There is none, or one has no port from 1 to 65535.
    """
    addresses = tuple(part.strip() for part in servers.split(",") if part.strip())
    if not addresses:
        raise ConfigError("bootstrap.servers is empty: give host:port of one process at least")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not is_written_whole(port) or not 1 <= int(port) <= 65_535:
            raise ConfigError(f"bootstrap.servers: {address!r} is not host:port")
    return addresses


def check_timeout_ms(timeout_ms: int) -> int:
    """Return ``timeout_ms``.

    Raises:
        IllegalArgumentError: It is negative, or no whole number.
    """
    if not isinstance(timeout_ms, int):
        raise IllegalArgumentError(
            f"timeout_ms is {timeout_ms!r}: it is a whole number of milliseconds; poll(1000) waits "
            "for up to a second"
        )
    if timeout_ms < 0:
        raise IllegalArgumentError(f"the time-out must not be negative, but is {timeout_ms} ms")
    return timeout_ms


def _unknown(name: str, known: Mapping[str, Setting]) -> str:
    near = nearest(name, known, cutoff=0.5)
    return f"unknown configuration {name!r}" + (f"; did you mean {near!r}?" if near else "")
