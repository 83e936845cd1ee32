"""Quotas in the coordination store: one record an entity (spec QUO-2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sharemesh.cluster.store.keys import Keys, parse_quota_path
from sharemesh.cluster.store.records import RecordFormatError, decode, encode
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.quota.names import QuotaEntity, QuotaName
from sharemesh.domain.quota.values import QUOTA_VALUE_MAX, check_entity, check_value
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination, Delete, Guard, KeyValue, Put

QUOTA_ENTITIES_MAX = 10_000
"""Principals, groups and defaults of one cluster that have quotas."""

ATTEMPTS = 5

_KNOWN = {each.value: each for each in QuotaName}


@dataclass(frozen=True, slots=True)
class StoredQuotas:
    """Values of one entity as stored; ``others`` are of names that this build does not know."""

    known: Mapping[QuotaName, float]
    others: Mapping[str, object]


def decode_quotas(entity: QuotaEntity, value: bytes) -> StoredQuotas:
    """Return the stored values of an entity.

    Raises:
        RecordFormatError: They are not such that this build understands.
    """
    values = decode(value).get("values", {})
    if not isinstance(values, dict):
        raise RecordFormatError(f"field 'values' is {values!r}, not a map")
    known, others = {}, {}
    for key, found in values.items():
        name = _KNOWN.get(key)
        if name is None or name.entity_type is not entity.entity_type:
            others[key] = found
        elif isinstance(found, bool) or not isinstance(found, int | float):
            raise RecordFormatError(f"quota {key} is {found!r}, not a number")
        elif not 0 < found <= QUOTA_VALUE_MAX:
            raise RecordFormatError(f"quota {key} is {found!r}, which binds nobody")
        else:
            known[name] = float(found)
    return StoredQuotas(known, others)


def encode_quotas(known: Mapping[QuotaName, float], others: Mapping[str, object]) -> bytes:
    """Return the value that quotas of one entity are stored as."""
    named = {name.value: value for name, value in known.items()}
    return encode({"values": dict(sorted({**others, **named}.items()))})


async def alter_quotas(
    coordination: Coordination,
    view: ClusterView,
    entity: QuotaEntity,
    changes: Mapping[QuotaName, float | None],
    *,
    validate_only: bool = False,
) -> None:
    """Change values of an entity, all of them or none (None: remove the quota).

    Raises:
        RefusedError: INVALID_REQUEST, INVALID_GROUP_ID; what is asked for may not be stored.
            REQUEST_TIMED_OUT if others keep changing it. UNKNOWN_SERVER_ERROR if the record that
            is there cannot be read.
        CoordinationError: The store does not answer.
    """
    check_entity(entity)
    for name, value in changes.items():
        if value is not None:
            check_value(name, value)
    keys = Keys(view.cluster_id)
    key = keys.quota(entity)
    for _ in range(ATTEMPTS):
        found = await coordination.get(key)
        stored = StoredQuotas({}, {}) if found is None else _readable(entity, found)
        known = {name: value for name, value in stored.known.items() if name not in changes}
        known.update((name, value) for name, value in changes.items() if value is not None)
        keeps = bool(known or stored.others)
        if keeps and found is None:
            await _check_room(coordination, keys)
        if validate_only or (found is None and not keeps):
            return
        guard = Guard(key, mod_revision=found.mod_revision if found else 0)
        write = Put(key, encode_quotas(known, stored.others)) if keeps else Delete(key)
        if await coordination.commit([guard], [write]) is not None:
            return
    raise RefusedError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"quotas of this {entity.entity_type.value} were changed {ATTEMPTS} times meanwhile; try "
        "again",
    )


async def list_quotas(
    coordination: Coordination, view: ClusterView
) -> Sequence[tuple[QuotaEntity, KeyValue]]:
    """Return what is stored of each entity, by key; entities of newer builds are left out.

    Raises:
        CoordinationError: The store does not answer.
    """
    prefix = Keys(view.cluster_id).quotas
    entries = (await coordination.list(prefix)).entries
    parsed = ((parse_quota_path(each.key.removeprefix(prefix)), each) for each in entries)
    return [(entity, entry) for entity, entry in parsed if entity is not None]


async def _check_room(coordination: Coordination, keys: Keys) -> None:
    count = len((await coordination.list(keys.quotas)).entries)
    if count >= QUOTA_ENTITIES_MAX:
        raise invalid_request(
            f"{count} principals and groups have quotas already; a cluster may have "
            f"{QUOTA_ENTITIES_MAX}: use the defaults, or remove quotas"
        )


def _readable(entity: QuotaEntity, found: KeyValue) -> StoredQuotas:
    try:
        return decode_quotas(entity, found.value)
    except RecordFormatError as error:
        raise RefusedError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the stored quotas cannot be read ({error}); ask a newer process, or delete the key "
            f"{found.key} in etcd",
        ) from None
