"""Users with passwords as the admin client gives and takes them: a password never leaves it."""

import secrets
from collections.abc import Mapping

from sharemesh.client.errors import IllegalArgumentError
from sharemesh.domain.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    credential_of,
    salted_password,
)
from sharemesh.v1 import admin_pb2 as pb

SCRAM_MECHANISMS = tuple(each.value for each in ScramMechanism)
DEFAULT_ITERATIONS = 8_192
PASSWORD_CHARS_MAX = 1_000
_SALT_BYTES = 16
_NUMBERS = {
    ScramMechanism.SHA_256: pb.SCRAM_MECHANISM_SHA_256,
    ScramMechanism.SHA_512: pb.SCRAM_MECHANISM_SHA_512,
}
_NAMES = {number: mechanism.value for mechanism, number in _NUMBERS.items()}

PasswordChanges = Mapping[str, str | None]


def user_alteration(name: str, changes: PasswordChanges, iterations: int) -> pb.UserAlteration:
    """Return the message of changes of one user; it takes milliseconds for each password.

    Raises:
        IllegalArgumentError: A mechanism, password or number of iterations is not possible.
    """
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise IllegalArgumentError(
            f"iterations {iterations}: give {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    altered = pb.UserAlteration(name=name)
    for given, password in changes.items():
        mechanism = _mechanism(given)
        if password is None:
            altered.deletions.append(_NUMBERS[mechanism])
            continue
        if not 0 < len(password) <= PASSWORD_CHARS_MAX:
            raise IllegalArgumentError(f"a password has 1 to {PASSWORD_CHARS_MAX} characters")
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = salted_password(mechanism, password, salt, iterations)
        kept = credential_of(mechanism, salted, salt, iterations)
        altered.upsertions.add(
            mechanism=_NUMBERS[mechanism],
            iterations=kept.iterations,
            salt=kept.salt,
            stored_key=kept.stored_key,
            server_key=kept.server_key,
        )
    return altered


def iterations_of(described: pb.DescribedUser) -> dict[str, int]:
    """Return the iterations of a user's passwords, by mechanism."""
    return {
        _NAMES.get(each.mechanism, str(each.mechanism)): each.iterations
        for each in described.credential_infos
    }


def _mechanism(given: str) -> ScramMechanism:
    try:
        return ScramMechanism(given)
    except ValueError:
        raise IllegalArgumentError(
            f"mechanism {given!r}: give {' or '.join(SCRAM_MECHANISMS)}"
        ) from None
