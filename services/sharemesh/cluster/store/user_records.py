"""What is kept of users' passwords, in the coordination store: one record a user."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.records import RecordFormatError, decode, encode, integer, text
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.scram_credentials import (
    ScramCredential,
    ScramMechanism,
    check_credential,
    check_user,
)
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination, Delete, Guard, Put

USERS_MAX = 10_000
"""Users of one cluster that have passwords."""

ATTEMPTS = 5

Credentials = Mapping[ScramMechanism, ScramCredential]
CredentialChanges = Mapping[ScramMechanism, ScramCredential | None]


_KNOWN = {each.value: each for each in ScramMechanism}


@dataclass(frozen=True, slots=True)
class StoredUser:
    """What is stored of one user; ``others`` are of mechanisms that this build does not know."""

    known: Credentials
    others: Mapping[str, object]


def decode_user(value: bytes) -> StoredUser:
    """Return what is stored of a user.

    Raises:
        RecordFormatError: It cannot be read; the message holds none of it.
    """
    stored = decode(value).get("scram", {})
    if not isinstance(stored, dict):
        raise RecordFormatError("field 'scram' is no map")
    return StoredUser(
        {each: _credential(stored[name]) for name, each in _KNOWN.items() if name in stored},
        {name: found for name, found in stored.items() if name not in _KNOWN},
    )


def encode_user(user: StoredUser) -> bytes:
    """Return the value that a user is stored as."""
    known = {
        mechanism.value: {
            "salt": _encoded(each.salt),
            "iterations": each.iterations,
            "stored_key": _encoded(each.stored_key),
            "server_key": _encoded(each.server_key),
        }
        for mechanism, each in user.known.items()
    }
    return encode({"scram": dict(sorted({**user.others, **known}.items()))})


async def alter_user(
    coordination: Coordination, view: ClusterView, name: str, changes: CredentialChanges
) -> None:
    """Store what is kept of a user, or remove it (None), all of it or nothing.

    Raises:
        RefusedError: INVALID_REQUEST, UNACCEPTABLE_CREDENTIAL; it may not be stored.
            RESOURCE_NOT_FOUND; what is to be removed is not there. REQUEST_TIMED_OUT if others
            keep changing it. UNKNOWN_SERVER_ERROR if the record that is there cannot be read.
        CoordinationError: The store does not answer.
    """
    check_user(name)
    for mechanism, credential in changes.items():
        if credential is not None:
            check_credential(mechanism, credential)
    keys = Keys(view.cluster_id)
    key = keys.user(name)
    for _ in range(ATTEMPTS):
        found = await coordination.get(key)
        stored = StoredUser({}, {}) if found is None else _readable(key, found.value)
        known = stored.known
        missing = [each for each, kept in changes.items() if kept is None and each not in known]
        if missing:
            raise RefusedError(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"user {name!r} has no password for {missing[0]}; `sharemesh users list` shows all",
            )
        kept = {each: value for each, value in known.items() if each not in changes}
        kept.update((each, value) for each, value in changes.items() if value is not None)
        left = StoredUser(kept, stored.others)
        if found is None:
            await _check_room(coordination, keys)
        guard = Guard(key, mod_revision=found.mod_revision if found else 0)
        write = Put(key, encode_user(left)) if kept or left.others else Delete(key)
        if await coordination.commit([guard], [write]) is not None:
            return
    raise RefusedError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"user {name!r} was changed {ATTEMPTS} times meanwhile; try again",
    )


async def list_users(
    coordination: Coordination, view: ClusterView
) -> Sequence[tuple[str, Credentials]]:
    """Return what is known of each user, by name; a record that cannot be read is left out.

    Raises:
        CoordinationError: The store does not answer.
    """
    prefix = Keys(view.cluster_id).users
    users = []
    for each in (await coordination.list(prefix)).entries:
        try:
            users.append((each.key.removeprefix(prefix), decode_user(each.value).known))
        except RecordFormatError:
            continue  # each process says so in its log
    return users


async def _check_room(coordination: Coordination, keys: Keys) -> None:
    count = len((await coordination.list(keys.users)).entries)
    if count >= USERS_MAX:
        raise invalid_request(
            f"{count} users have passwords already; a cluster may have {USERS_MAX}: delete some"
        )


def _readable(key: str, value: bytes) -> StoredUser:
    try:
        return decode_user(value)
    except RecordFormatError as error:
        raise RefusedError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"what is stored of the user cannot be read ({error}); ask a newer process, or delete "
            f"the key {key} in etcd",
        ) from None


def _credential(stored: object) -> ScramCredential:
    if not isinstance(stored, dict):
        raise RecordFormatError("a credential is no map")
    return ScramCredential(
        _decoded(stored, "salt"),
        integer(stored, "iterations"),
        _decoded(stored, "stored_key"),
        _decoded(stored, "server_key"),
    )


def _decoded(stored: Mapping[str, object], name: str) -> bytes:
    try:
        return base64.b64decode(text(stored, name), validate=True)
    except (binascii.Error, ValueError):
        raise RecordFormatError(f"field {name!r} is not base64") from None


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
