"""What a client needs of the world, and what fills it: gRPC, the machine's clock and chance.

Tests and simulation fill it with their own.
"""

import random
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.config import ClientConfig
from sharemesh.client.errors import ConfigError, IllegalStateError
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import Caller
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.forked import GRPC_USERS
from sharemesh.rpc.shown_token import TokenFileError
from sharemesh.rpc.tls import TlsError, TlsFiles

_HEADER_NAME = re.compile(r"(?!grpc-)[a-z0-9_.-]+(?<!-bin)")


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """The ports of one client.

    ``open_caller`` is called once, on the event loop that will use the connections.
    """

    open_caller: Callable[[], Caller]
    clock: Clock
    chance: random.Random
    new_id: Callable[[], str]


def real_environment(config: ClientConfig) -> ClientEnvironment:
    """Return gRPC connections, the machine's clock, and chance from the operating system.

    Raises:
        ConfigError: A certificate, key or token file cannot be used.
        IllegalStateError: The process was forked while a client was open, so that no call of it
            would ever be answered.
    """
    if GRPC_USERS.is_left_behind:
        raise IllegalStateError(
            "this process was forked while clients were open, and gRPC does not work in such a "
            "one: make the first client after the fork, or start processes by spawn "
            "(multiprocessing.get_context('spawn'))"
        )
    clock = SystemClock()
    tls = _tls(config)
    headers = _headers(config)
    token_file = _token_file(config)
    try:
        # Refuse unusable files now, not at the first call.
        GrpcCaller(clock, tls=tls, token_file=token_file)
    except (TlsError, TokenFileError) as error:
        raise ConfigError(str(error)) from error

    def open_caller() -> Caller:
        return GrpcCaller(clock, tls=tls, headers=headers, token_file=token_file)

    return ClientEnvironment(open_caller, clock, random.Random(), lambda: str(uuid.uuid4()))  # noqa: S311, TID251


def _tls(config: ClientConfig) -> TlsFiles | None:
    if config.text("security.protocol") != "ssl":
        return None

    def path(name: str) -> Path | None:
        text = config.text(name)
        return Path(text) if text else None

    return TlsFiles(
        certificate=path("ssl.certificate.location"),
        key=path("ssl.key.location"),
        authority=path("ssl.ca.location"),
    )


def _token_file(config: ClientConfig) -> Path | None:
    """Return the file of the token; it would be readable on the way without TLS (spec IDN-3)."""
    text = config.text("sasl.token.location")
    if not text:
        return None
    if config.text("sasl.token"):
        raise ConfigError("sasl.token and sasl.token.location: give one of them")
    if config.text("security.protocol") != "ssl":
        raise ConfigError(
            "sasl.token.location: a token is sent over TLS only; set security.protocol=ssl"
        )
    return Path(text)


def _headers(config: ClientConfig) -> list[tuple[str, str]]:
    headers = []
    for pair in config.text("request.headers").split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals and not name:
            continue
        if not equals or not _HEADER_NAME.fullmatch(name) or not _plain(value):
            raise ConfigError(
                f"request.headers: {name!r} is not name=value; names have lower-case letters, "
                "digits, dot, dash and underscore, values printable ASCII"
            )
        headers.append((name, value))
    token = config.text("sasl.token")
    if not _plain(token):
        raise ConfigError("sasl.token: a token is printable ASCII")
    if token:
        headers.append(("authorization", f"Bearer {token}"))
    return headers


def _plain(text: str) -> bool:
    return text.isascii() and (not text or text.isprintable())
