"""What the salts of users are made with who do not exist: one secret of a cluster (KLS-22)."""

from random import Random

from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import Keys
from sharemesh.ports.coordination import Coordination, CoordinationError, Guard, Put

SECRET_BYTES = 32
_ATTEMPTS = 5


async def login_secret(coordination: Coordination, cluster_id: str, rng: Random) -> bytes:
    """Return the secret; whoever asks first makes it.

    Raises:
        CoordinationError: The store does not answer, or holds what is no secret.
    """
    key = Keys(cluster_id).login_secret
    for _ in range(_ATTEMPTS):
        stored = await coordination.get(key)
        if stored is not None:
            return _decoded(key, stored.value)
        made = rng.getrandbits(8 * SECRET_BYTES).to_bytes(SECRET_BYTES, "big")
        put = Put(key, records.encode({"secret": made.hex()}))
        if await coordination.commit([Guard(key, create_revision=0)], [put]) is not None:
            return made
    raise CoordinationError(f"{key} came and went {_ATTEMPTS} times meanwhile; try again")


def _decoded(key: str, value: bytes) -> bytes:
    try:
        return bytes.fromhex(records.text(records.decode(value), "secret"))
    except (records.RecordFormatError, ValueError):
        raise CoordinationError(
            f"{key} holds what is no secret; delete it, and a new one is made"
        ) from None
