"""Settings of the cluster and of groups in the coordination store, and producer id blocks."""

from collections.abc import Mapping
from dataclasses import dataclass

from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import Keys
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config.evaluate import check_cluster_configs
from sharemesh.domain.ids import GroupId
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination, Delete, Guard, Put

ATTEMPTS = 5
PRODUCER_ID_BLOCK = 1_000
PRODUCER_ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StoredConfigs:
    """Settings as stored; ``mod_revision`` guards the next write, 0 if there are none."""

    entries: Mapping[str, str]
    mod_revision: int


async def alter_cluster_configs(
    coordination: Coordination,
    view: ClusterView,
    changes: Mapping[str, str | None],
    *,
    validate_only: bool = False,
) -> Mapping[str, str]:
    """Change settings of the cluster (None: back to the default) and return all that differ.

    Raises:
        RefusedError: INVALID_CONFIG (spec CFG-40); REQUEST_TIMED_OUT if others keep changing it.
    """
    key = Keys(view.cluster_id).cluster_configs
    for _ in range(ATTEMPTS):
        stored = await _load(coordination, key)
        kept = {name: value for name, value in stored.entries.items() if name not in changes}
        new = {name: value for name, value in changes.items() if value is not None}
        checked = check_cluster_configs({**kept, **new})
        if validate_only or await _store(coordination, key, checked, stored.mod_revision):
            return checked
    raise RefusedError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"settings of the cluster were changed {ATTEMPTS} times meanwhile; try again",
    )


async def load_group_configs(
    coordination: Coordination, view: ClusterView, group_id: GroupId
) -> StoredConfigs:
    """Return what was set for a group, linearizable."""
    return await _load(coordination, Keys(view.cluster_id).group_config(group_id))


async def store_group_configs(
    coordination: Coordination,
    view: ClusterView,
    group_id: GroupId,
    entries: Mapping[str, str],
    *,
    expected_mod_revision: int,
) -> bool:
    """Replace the settings of a group; False if they changed since they were loaded.

    Only the group's coordinator calls this, after it has checked the settings. Empty entries
    remove the record.
    """
    key = Keys(view.cluster_id).group_config(group_id)
    return await _store(coordination, key, entries, expected_mod_revision)


async def take_producer_ids(
    coordination: Coordination, view: ClusterView, *, at_least: int
) -> range:
    """Reserve ``PRODUCER_ID_BLOCK`` unique producer ids at or above ``at_least``; return them.

    That is above what a log has seen already (LOG-22).

    Raises:
        CoordinationError: The store does not answer; a block may then be lost, which is fine.
        RefusedError: REQUEST_TIMED_OUT if others keep taking blocks.
    """
    key = Keys(view.cluster_id).producer_ids
    for _ in range(ATTEMPTS * 4):
        stored = await coordination.get(key)
        first = max(at_least, records.decode_number(stored.value) if stored else 0)
        if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK:
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids were given out")
        guard = Guard(key, mod_revision=stored.mod_revision if stored else 0)
        put = Put(key, records.encode_number(first + PRODUCER_ID_BLOCK))
        if await coordination.commit([guard], [put]) is not None:
            return range(first, first + PRODUCER_ID_BLOCK)
    raise RefusedError(
        ErrorCode.REQUEST_TIMED_OUT, "others took blocks of producer ids all the time; try again"
    )


async def _load(coordination: Coordination, key: str) -> StoredConfigs:
    stored = await coordination.get(key)
    if stored is None:
        return StoredConfigs({}, 0)
    return StoredConfigs(records.decode_configs(stored.value), stored.mod_revision)


async def _store(
    coordination: Coordination, key: str, entries: Mapping[str, str], mod_revision: int
) -> bool:
    guard = Guard(key, mod_revision=mod_revision)
    operation = Put(key, records.encode_configs(entries)) if entries else Delete(key)
    return await coordination.commit([guard], [operation]) is not None
