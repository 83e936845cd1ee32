"""Access rules in the coordination store: added, found, removed."""

from collections.abc import Callable, Sequence

from sharemesh.cluster.store.acl_rules import AclRule, check_rule, decode_rule, encode_rule
from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.records import RecordFormatError
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import OPERATIONS_MAX, Coordination, Delete, Put

ACLS_MAX = 10_000
"""Rules of one cluster."""


async def add_rules(
    coordination: Coordination, view: ClusterView, rules: Sequence[AclRule]
) -> None:
    """Store rules; one that is there already stays. At most ``OPERATIONS_MAX`` at once.

    Raises:
        RefusedError: INVALID_REQUEST; a rule is not allowed, or they would be too many.
        CoordinationError: The store does not answer.
    """
    keys = Keys(view.cluster_id)
    puts = {
        each.rule_id: Put(keys.acl(each.rule_id), encode_rule(check_rule(each))) for each in rules
    }
    stored = {entry.key for entry in (await coordination.list(keys.acls)).entries}
    count = len(stored | {put.key for put in puts.values()})
    if count > ACLS_MAX:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"{count} access rules; a cluster may have {ACLS_MAX}: use prefixed names, or remove "
            "rules",
        )
    await coordination.commit([], list(puts.values()))


async def find_rules(
    coordination: Coordination, view: ClusterView, wanted: Callable[[AclRule], bool]
) -> list[AclRule]:
    """Return the stored rules that are wanted, sorted; unreadable ones are left out.

    Raises:
        CoordinationError: The store does not answer.
    """
    found = []
    for entry in (await coordination.list(Keys(view.cluster_id).acls)).entries:
        try:
            rule = decode_rule(entry.value)
        except RecordFormatError:
            continue
        if wanted(rule):
            found.append(rule)
    return sorted(found, key=str)


async def remove_rules(
    coordination: Coordination, view: ClusterView, wanted: Callable[[AclRule], bool]
) -> list[AclRule]:
    """Remove the rules that are wanted and return them.

    Raises:
        CoordinationError: The store does not answer; some may be removed, repeat it.
    """
    keys = Keys(view.cluster_id)
    found = await find_rules(coordination, view, wanted)
    for first in range(0, len(found), OPERATIONS_MAX):
        part = found[first : first + OPERATIONS_MAX]
        await coordination.commit([], [Delete(keys.acl(rule.rule_id)) for rule in part])
    return found
