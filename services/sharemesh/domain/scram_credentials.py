"""What is kept of a user's password for SCRAM (RFC 5802), and what may be kept; pure."""

import hashlib
import hmac
from enum import StrEnum
from typing import NamedTuple

from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.printable import check_printable

USER_CHARS_MAX = 255
"""Longest name of a user with a password; with ``User:`` it stays below every bound."""

ITERATIONS_MIN = 4_096
ITERATIONS_MAX = 16_384
"""Kafka's bounds of iterations; a login by password takes so many hashes of its server, too."""

SALT_BYTES_MIN, SALT_BYTES_MAX = 8, 64


class ScramMechanism(StrEnum):
    """How a password is proved, by the name that clients ask for."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def algorithm(self) -> str:
        """The hash, as hashlib names it."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        """Length of a key."""
        return 32 if self is ScramMechanism.SHA_256 else 64


class ScramCredential(NamedTuple):
    """What proves a password and does not tell it."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Return the password's hash that all proofs begin with: milliseconds of processor time."""
    return hashlib.pbkdf2_hmac(mechanism.algorithm, password.encode(), salt, iterations)


def credential_of(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return what is kept of a salted password."""
    algorithm = mechanism.algorithm
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    return ScramCredential(
        salt, iterations, hashlib.new(algorithm, client_key).digest(), server_key
    )


def check_user(name: str) -> None:
    """Refuse what no user with a password can be called.

    Raises:
        RefusedError: INVALID_REQUEST.
    """
    if not 0 < len(name) <= USER_CHARS_MAX:
        raise invalid_request(
            f"user {name[:40]!r} has {len(name)} characters; names have 1 to {USER_CHARS_MAX}"
        )
    check_printable("the name of the user", name)


def check_credential(mechanism: ScramMechanism, credential: ScramCredential) -> None:
    """Refuse a credential that would not protect its password, or can be none.

    Raises:
        RefusedError: UNACCEPTABLE_CREDENTIAL; the words hold none of it.
    """
    if not ITERATIONS_MIN <= credential.iterations <= ITERATIONS_MAX:
        raise _unacceptable(
            f"{credential.iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are taken"
        )
    if not SALT_BYTES_MIN <= len(credential.salt) <= SALT_BYTES_MAX:
        raise _unacceptable(
            f"a salt of {len(credential.salt)} bytes; {SALT_BYTES_MIN} to {SALT_BYTES_MAX} are "
            "taken"
        )
    wanted = mechanism.key_bytes
    if {len(credential.stored_key), len(credential.server_key)} != {wanted}:
        raise _unacceptable(f"keys of {mechanism} have {wanted} bytes")


def _unacceptable(message: str) -> RefusedError:
    return RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
