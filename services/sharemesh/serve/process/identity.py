"""Who may do what in a process, and how its cluster's processes know each other."""

import os
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from sharemesh.cluster.acl_table import NODE_PRINCIPAL, AclTable, AllowAll
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.ports.authorizer import Authorizer
from sharemesh.ports.clock import Clock
from sharemesh.rpc.tls import SECRET_HEADER, Principals
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings

if TYPE_CHECKING:
    from sharemesh.tokens.verifier import TokenVerifier

SECRET_CHARS_MIN = 16
_SECRET_BITS = 256


class Identity:
    """The cluster's secret of one process, read once at its start, and who judges tokens.

    Raises:
        StartError: SETTINGS; the secret file cannot be used, or with access rules the processes
            of the cluster would have no way to be told from clients.
    """

    def __init__(self, settings: ServeSettings, rng: Random, clock: Clock) -> None:
        self._settings = settings
        self._secret = ""
        self._tokens = _token_verifier(settings, clock) if settings.token_issuer else None
        if settings.cluster_secret_file is not None:
            self._secret = _read_secret(settings.cluster_secret_file)
        elif settings.authorizer == "acl" and settings.in_memory:
            self._secret = new_secret(rng)  # this process calls nobody but itself
        elif settings.authorizer == "acl" and not (settings.mutual_tls or settings.shows_token):
            raise StartError(
                ExitCode.SETTINGS,
                "authorizer acl: the cluster's processes must know each other; set "
                "cluster_secret_file, or tls_authority with tls_client_certificates required and "
                "name their certificates in super_users, or token_issuer and token_file and name "
                "the token's subject there",
            )

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What goes with each call to another process of the cluster."""
        return ((SECRET_HEADER, self._secret),) if self._secret else ()

    @property
    def principals(self) -> Principals:
        """How callers of this process are known."""
        return Principals(
            secret=self._secret,
            node=NODE_PRINCIPAL,
            header=self._settings.principal_header.lower(),
            users=self._settings.super_users,
            tokens=self._tokens,
        )

    async def start(self) -> None:
        """Read the keys by which tokens are judged, and keep them fresh until ``close``.

        Raises:
            StartError: SETTINGS; they are in a file that cannot be used.
        """
        if self._tokens is None:
            return
        from sharemesh.tokens.key_set import KeySetError
        from sharemesh.tokens.key_source import KeySourceError

        try:
            await self._tokens.start(must_read=not _is_url(self._settings.token_keys))
        except (KeySourceError, KeySetError) as error:
            raise StartError(ExitCode.SETTINGS, f"setting token_keys: {error}") from error

    async def close(self) -> None:
        """Stop reading keys."""
        if self._tokens is not None:
            await self._tokens.close()

    def authorizer(self, view: WatchedView) -> Authorizer:
        """Return what the settings choose; the view has started."""
        if self._settings.authorizer == "acl":
            return AclTable(view, super_users=self._settings.super_users)
        return AllowAll()


def _token_verifier(settings: ServeSettings, clock: Clock) -> "TokenVerifier":
    """Return who judges tokens; what that takes is imported only where tokens are taken.

    Raises:
        StartError: SETTINGS; the address of the keys is none.
    """
    from sharemesh.tokens.key_source import KeySetAddress, KeySetFile, KeySource, KeySourceError
    from sharemesh.tokens.verifier import TokenIssuer, TokenVerifier

    try:
        source: KeySource = KeySetFile(Path(settings.token_keys))
        if _is_url(settings.token_keys):
            source = KeySetAddress(
                settings.token_keys,
                authority=settings.token_keys_authority,
                token_file=settings.token_keys_token,
            )
    except KeySourceError as error:
        raise StartError(ExitCode.SETTINGS, f"setting token_keys: {error}") from error
    trusted = TokenIssuer(settings.token_issuer, settings.token_audience)
    return TokenVerifier(trusted, source, clock)


def _is_url(text: str) -> bool:
    return "://" in text


def new_secret(rng: Random) -> str:
    """Return a secret that nobody can guess, if ``rng`` is the operating system's."""
    return f"{rng.getrandbits(_SECRET_BITS):064x}"


def with_secret(settings: ServeSettings, directory: Path, rng: Random) -> ServeSettings:
    """Return the settings with a secret of its own, if a local cluster has none.

    Access rules and bounds of calls (spec BND-2) know its processes by it. The file
    stays in the data directory, readable by its owner only.

    Raises:
        OSError: It cannot be written; then there is none, or the one from before.
    """
    if settings.cluster_secret_file is not None or settings.mutual_tls:
        return settings
    path = directory / "run" / "cluster-secret"
    if not path.exists() or not path.stat().st_size:
        _write_secret(path, new_secret(rng))
    return replace(settings, cluster_secret_file=path)


def _write_secret(path: Path, secret: str) -> None:
    """Write the whole file or none: half of one would stop every later start."""
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)  # of a start that a power cut has ended
    temporary.touch(mode=0o600, exist_ok=False)
    with temporary.open("w", encoding="ascii") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _read_secret(path: Path) -> str:
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(
            ExitCode.SETTINGS, f"setting cluster_secret_file: cannot read {path}: {error}"
        ) from error
    if len(secret) < SECRET_CHARS_MIN or not secret.isascii() or not secret.isprintable():
        raise StartError(
            ExitCode.SETTINGS,
            f"setting cluster_secret_file: {path} needs one line of at least {SECRET_CHARS_MIN} "
            "printable ASCII characters",
        )
    return secret
