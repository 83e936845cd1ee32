"""All kinds of abuse on one cluster, one after the other, and its memory a minute later."""

import asyncio
import importlib
import traceback
from collections.abc import AsyncIterator, Sequence

from tests.faults.abuse.abused_cluster import KINDS, Stage, stage, yield_the_processor
from tests.faults.abuse.kinds import ABUSES
from tests.faults.abuse.trial import Quiet, quiet_tenant, tried
from tests.faults.trials import Outcome

FAMILIES = (
    "handshakes",
    "silence",
    "unread",
    "sizes",
    "asking",
    "rights",
    "leading",
    "joining",
    "writing",
    "bombs",
    "administering",
    "kafka_frames",
)
for family in FAMILIES:
    importlib.import_module(f"tests.faults.abuse.{family}")

NAMES = (*ABUSES, "memory_a_minute_later")
"""The rows, in order."""

KINDS_MIN = 60
GROWTH_BYTES_MAX = 50 << 20
WARM_S = 5.0
LATER_S = 60.0

assert len(ABUSES) >= KINDS_MIN, "kinds of abuse are missing"
assert {who for each in ABUSES.values() for who in each.who} == set(KINDS), "nobody is left out"


async def abused(names: Sequence[str], seed: int) -> AsyncIterator[tuple[str, Outcome]]:
    """Try the named kinds, each of which leaves its outcome; memory is a row of its own."""
    async with stage() as made, quiet_tenant(made) as quiet:
        await asyncio.sleep(WARM_S)
        yield_the_processor()
        before = made.memory()
        for name in names:
            if name in ABUSES:
                yield name, await _carried_through(made, quiet, name)
        if NAMES[-1] in names:
            yield NAMES[-1], await _memory(made, before)


async def _carried_through(made: Stage, quiet: Quiet, name: str) -> Outcome:
    """Try a kind; one that cannot be tried is a violation, and the others are tried too."""
    try:
        return await tried(made, quiet, ABUSES[name])
    except Exception as error:
        traceback.print_exc()
        return Outcome((f"not carried through: {type(error).__name__}: {error}",))


async def _memory(made: Stage, before: dict[str, int]) -> Outcome:
    """Compare what processes hold a minute after all with what they held before."""
    await made.close_channels()
    at_once = made.memory()
    await asyncio.sleep(LATER_S)
    grown = {name: size - before.get(name, 0) for name, size in made.memory().items()}
    wrong = [
        f"{name} grew by {growth >> 20} MiB" for name, growth in grown.items()
        if growth > GROWTH_BYTES_MAX
    ]  # fmt: skip
    shown = ", ".join(
        f"{name} {before.get(name, 0) >> 20} -> {at_once[name] >> 20} -> "
        f"{(before.get(name, 0) + growth) >> 20} MiB"
        for name, growth in grown.items()
    )
    answers = ", ".join(f"{count} {name}" for name, count in sorted(made.said.items()))
    return Outcome(tuple(wrong), (), f"{shown}; answers: {answers}")
