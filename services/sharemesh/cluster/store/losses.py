"""Losses of confirmed records that an operator gives up (STL-27)."""

from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.records import RecordFormatError
from sharemesh.cluster.store.seen_records import decode_damage, decode_seen, encode_seen
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.stamped_log.seen import LostUnits, accepted
from sharemesh.ports.coordination import Coordination, Guard, Put

ATTEMPTS = 5


async def accept_loss(coordination: Coordination, cluster_id: str, name: str) -> LostUnits:
    """Let a coordinator shard be served from what is left of its log; return what was lost.

    Raises:
        RefusedError: INVALID_REQUEST: no loss waits there; REQUEST_TIMED_OUT: it changes.
        CoordinationError: The store does not answer.
    """
    key = Keys(cluster_id).seen_log(name)
    for _ in range(ATTEMPTS):
        stored = await coordination.get(key)
        try:
            seen = None if stored is None else decode_seen(stored.value)
            if stored is None or seen is None or seen.loss is None:
                raise invalid_request(await _nothing_to_accept(coordination, cluster_id, name))
        except RecordFormatError as error:
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{key}: {error}") from error
        guard = Guard(key, mod_revision=stored.mod_revision)
        if await coordination.commit([guard], [Put(key, encode_seen(accepted(seen)))]) is not None:
            return seen.loss
    raise RefusedError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"shard {name} was changed {ATTEMPTS} times meanwhile; try again",
    )


async def _nothing_to_accept(coordination: Coordination, cluster_id: str, name: str) -> str:
    """Return why nothing can be given up: a gap is no lost end, what follows it rests on it."""
    damage = await coordination.get(Keys(cluster_id).damaged_log(name))
    if damage is None:
        return f"no loss of shard {name[:100]!r} waits for an answer"
    return (
        f"what is wrong with shard {name} is no lost end, and cannot be given up: "
        f"{decode_damage(damage.value)}"
    )
