"""The words for a list of groups in which those of a shard are missing (spec ADM-4)."""

from collections.abc import Iterable


def incomplete_words(missing: Iterable[str]) -> str:
    """Return what is missing in the list, and what to do; ``missing`` are names of shards."""
    names = sorted(missing)
    verb = "has" if len(names) == 1 else "have"
    return (
        f"the list is incomplete: {', '.join(names)} {verb} no leader that answers; look with "
        "sharemesh cluster why, and list again"
    )
