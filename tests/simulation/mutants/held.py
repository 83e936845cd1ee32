"""Bugs of large states, whose snapshots and reads come in parts."""

from sharemesh.domain.share_state.snapshot_parts import SnapshotParts
from sharemesh.persister.persister import Persister
from tests.simulation.patching import Patches


def only_the_first_part_is_read(patch: Patches) -> None:
    """A leader takes the first part of a large state for all of it."""
    real = Persister._ask

    async def ask(persister, rpc, key, item):
        result = await real(persister, rpc, key, item)
        if getattr(result, "next_offset", -1) >= 0:
            object.__setattr__(result, "next_offset", -1)
        return result

    patch.setattr(Persister, "_ask", ask)


def parts_are_taken_without_the_first(patch: Patches) -> None:
    """The last part counts, whatever is missing before it."""
    real = SnapshotParts.take

    def take(parts, record, offset):
        if record.part == record.parts - 1 > 0:
            begun = parts._begun.get(record.snapshot.key)
            if begun is not None:
                del begun.batches[:-1]
                begun.batches += [()] * (record.parts - 1 - len(begun.batches))
        return real(parts, record, offset)

    patch.setattr(SnapshotParts, "take", take)
