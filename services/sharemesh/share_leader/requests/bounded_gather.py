"""Work on the many parts of one request: some at once, results in their order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sharemesh.ports.network import CallFailedError, Failure

Part = TypeVar("Part")
Result = TypeVar("Result")


def check_parts(parts: Sequence[Any], bound: int, name: str) -> None:
    """Refuse a request of more parts than ``bound`` as a whole: one error, not one for each.

    Raises:
        CallFailedError: RESOURCE_EXHAUSTED.
    """
    if len(parts) > bound:
        raise CallFailedError(
            Failure.RESOURCE_EXHAUSTED,
            f"{len(parts)} {name} in one request; send at most {bound}",
        )


async def in_slices(
    parts: Sequence[Part], work: Callable[[Part], Awaitable[Result]], *, at_once: int
) -> list[Result]:
    """Return what ``work`` returns for each part; parts of a slice begin in their order."""
    results: list[Result] = []
    for first in range(0, len(parts), at_once):
        results += await asyncio.gather(*map(work, parts[first : first + at_once]))
    return results
