"""Compares the quotas of a ShareCluster with the stored ones (spec QUO-16)."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sharemesh.domain.quota.names import EntityType, QuotaEntity
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.tenants import age, cluster_of, is_deleted
from sharemesh_operator.resources.users import user_principal, user_quotas

QuotaChange = dict[QuotaEntity, dict[str, float | None]]
MadeQuotas = dict[QuotaEntity, frozenset[str]]
"""Names of the quotas that the operator set for this object, by entity."""

FIELD = "quotas"
_HUMP = re.compile(r"(?=[A-Z])")
_DEFAULTS = {"userDefault": EntityType.USER, "groupDefault": EntityType.GROUP}
_NAMED = {"users": (EntityType.USER, "principal"), "groups": (EntityType.GROUP, "groupId")}


def wanted_quotas(body: KubeObject) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas that an object asks for, by the names of the mesh."""
    given = body["spec"].get(FIELD) or {}
    found = {
        QuotaEntity(kind, None): _values(given[field])
        for field, kind in _DEFAULTS.items()
        if given.get(field)
    }
    for field, (kind, key) in _NAMED.items():
        for each in given.get(field) or ():
            values = {name: value for name, value in each.items() if name != key}
            found[QuotaEntity(kind, each[key])] = _values(values)
    return found


def made_quotas(body: KubeObject) -> MadeQuotas:
    """Return what the operator made for an object, as its status says."""
    noted = (body.get("status") or {}).get(FIELD) or ()
    return {
        QuotaEntity(EntityType(each["entityType"]), each.get("entityName")): frozenset(
            each["names"]
        )
        for each in noted
    }


def of_users(cluster: str, users: Iterable[KubeObject]) -> MadeQuotas:
    """Return the quotas that ShareUsers of a cluster name: theirs go before the cluster's.

    Of several for one principal the oldest counts (IDN-12), and none that is being deleted.
    """
    mine = sorted(
        (each for each in users if cluster_of(each) == cluster and not is_deleted(each)), key=age
    )
    oldest: dict[str, KubeObject] = {}
    for each in mine:
        oldest.setdefault(user_principal(each), each)
    return {
        QuotaEntity(EntityType.USER, principal): frozenset(user_quotas(each))
        for principal, each in oldest.items()
        if user_quotas(each)
    }


def unclaimed(
    wanted: Mapping[QuotaEntity, Mapping[str, float]], claimed: MadeQuotas
) -> dict[QuotaEntity, dict[str, float]]:
    """Return what is wanted and nobody else's."""
    left = {
        entity: {
            name: value
            for name, value in values.items()
            if name not in claimed.get(entity, frozenset())
        }
        for entity, values in wanted.items()
    }
    return {entity: values for entity, values in left.items() if values}


def with_wanted(made: MadeQuotas, wanted: Mapping[QuotaEntity, Iterable[str]]) -> MadeQuotas:
    """Return what is known as made once everything that is wanted is set."""
    return {
        entity: made.get(entity, frozenset()) | frozenset(wanted.get(entity, ()))
        for entity in [*made, *(each for each in wanted if each not in made)]
    }


def without(made: MadeQuotas, removed: Mapping[QuotaEntity, Iterable[str]]) -> MadeQuotas:
    """Return what is left of what was made."""
    left = {entity: names - frozenset(removed.get(entity, ())) for entity, names in made.items()}
    return {entity: names for entity, names in left.items() if names}


def quota_change(
    wanted: Mapping[QuotaEntity, Mapping[str, float]],
    made: MadeQuotas,
    stored: Callable[[QuotaEntity], Mapping[str, float]],
) -> QuotaChange:
    """Return what to set, and what to remove because it was made and is not wanted any more.

    What is to be removed is asked for whether it is seen or not: what is seen may be a little old.
    """
    change: QuotaChange = {}
    for entity in [*wanted, *(each for each in made if each not in wanted)]:
        values, found = wanted.get(entity, {}), stored(entity)
        changed: dict[str, float | None] = {
            name: value for name, value in values.items() if found.get(name) != value
        }
        changed |= dict.fromkeys(sorted(made.get(entity, frozenset()) - values.keys()))
        if changed:
            change[entity] = changed
    return change


def made_status(made: MadeQuotas) -> list[KubeObject] | None:
    """Return the field of the status that ``made_quotas`` reads; None takes it away."""
    return [_noted(entity, names) for entity, names in made.items() if names] or None


def _noted(entity: QuotaEntity, names: Iterable[str]) -> KubeObject:
    named = {} if entity.name is None else {"entityName": entity.name}
    return {"entityType": entity.entity_type.value, **named, "names": sorted(names)}


def _values(given: Mapping[str, Any]) -> dict[str, float]:
    """Return values by the names of the mesh: ``recordRate`` is ``record_rate``."""
    return {_HUMP.sub("_", name).lower(): float(value) for name, value in given.items()}
