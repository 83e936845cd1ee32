"""What may be stored: known names, values within bounds, entities that can exist (spec QUO-1)."""

from sharemesh.domain.errors import ErrorCode, invalid_request
from sharemesh.domain.ids import check_group_id, check_group_is_named, check_user_principal
from sharemesh.domain.printable import check_printable
from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName
from sharemesh.domain.setting_values import nearest

QUOTA_VALUE_MAX = 1e15
"""Highest value, inclusive; whole numbers up to it are exact."""

COUNTS = frozenset(
    {
        QuotaName.CONNECTIONS,
        QuotaName.STREAMS,
        QuotaName.SHARE_SESSIONS,
        QuotaName.GROUPS,
        QuotaName.RECORDS_IN_FLIGHT,
    }
)
"""These say how many at a time, so their values are whole numbers; the others are rates."""

EVERYBODY = "User:*"
"""Everybody in an access rule; nobody in a quota."""

_SHOWN = 100  # characters of what was sent, in a refusal


def quota_named(text: str, entity_type: EntityType) -> QuotaName:
    """Return the quota of a type of entity that has this name.

    Raises:
        RefusedError: INVALID_REQUEST; there is none, with the nearest name.
    """
    of_type = {each.value: each for each in QuotaName if each.entity_type is entity_type}
    found = of_type.get(text)
    if found is not None:
        return found
    others = {each.value: each.entity_type.value for each in QuotaName}
    if text in others:
        raise invalid_request(
            f"quota {text} binds a {others[text]}, not a {entity_type.value}; a "
            f"{entity_type.value} has {', '.join(of_type)}"
        )
    near = nearest(text, of_type, cutoff=0.4)
    offer = f"did you mean {near}? " if near else ""
    raise invalid_request(
        f"unknown quota {text[:_SHOWN]!r}; {offer}a {entity_type.value} has {', '.join(of_type)}"
    )


def check_value(name: QuotaName, value: float) -> float:
    """Return a value that may be stored.

    Raises:
        RefusedError: INVALID_REQUEST; it is no number above 0, too high, or half a thing.
    """
    if not 0 < value <= QUOTA_VALUE_MAX:  # also if it is no number
        raise invalid_request(
            f"quota {name.value}={value:.15g}: give a number above 0 and at most "
            f"{QUOTA_VALUE_MAX:.0f}, or remove the quota"
        )
    if name in COUNTS and value % 1:
        raise invalid_request(
            f"quota {name.value}={value:.15g}: it counts things, give a whole number"
        )
    return value


def check_entity(entity: QuotaEntity) -> QuotaEntity:
    """Return an entity that may have quotas.

    Raises:
        RefusedError: INVALID_REQUEST, INVALID_GROUP_ID; nobody can have such a name.
    """
    name = entity.name
    if name is None:
        return entity
    if entity.entity_type is EntityType.GROUP:
        check_group_is_named(name)
        check_group_id(name)
        check_printable("group id", name, ErrorCode.INVALID_GROUP_ID)
        return entity
    check_user_principal(name)
    check_printable("principal", name)
    if name == EVERYBODY:
        raise invalid_request(
            f"principal {EVERYBODY}: a quota binds each principal by itself; give the default of "
            "users to bind all who have no value of their own"
        )
    return entity
