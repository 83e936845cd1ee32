"""One trial of a kind of abuse: quiet, abused, judged; and what is looked at when all are over."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.faults.abuse.abused_cluster import ALICES, SECRET, Stage
from tests.faults.abuse.kinds import Abuse
from tests.faults.trials import ROOT, Outcome, quantile

QUIET_S = 1.5
ABUSED_S = 1.0
"""A kind that is over sooner is repeated for so long, so that there is something to measure."""

KIND_TIMEOUT_S = 40.0
SETTLE_S = 0.1
CAUGHT_UP_S = 30.0
RATIO_MAX = 3.0
HELD_MS = 50.0
"""A p99 up to here is no violation whatever the ratio: a slice may hold a loop so long (BND-20)."""

TRIES = 3
"""A kind whose ratio is missed is measured again: a stall by the kind is there each time, one by
the machine is not. It is a violation if no try holds."""

GROWN_BYTES = 4 << 20
"""A process that grew by so much during a kind is named in its notes."""

FIRST_S = 20.0
"""How long the quiet tenant may take until its first records are delivered."""


@dataclass(slots=True)
class Quiet:
    """What the process of the quiet tenant says, as it comes."""

    samples: list[tuple[str, float, float]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    oldest: float = 0.0

    async def read(self, source: asyncio.StreamReader) -> None:
        """Take in each line until the process ends."""
        while line := await source.readline():
            said = json.loads(line)
            self.samples += [(kind, began, took) for kind, began, took in said["ended"]]
            self.errors += said["errors"]
            self.oldest = said["oldest"]

    async def until(self, moment: float, timeout_s: float) -> bool:
        """Wait until all that began before a moment has ended; return whether it has."""
        deadline = time.monotonic() + timeout_s
        while self.oldest <= moment:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    def p99_ms(self, began: float, ended: float) -> dict[str, float]:
        """Return the p99 of each kind of call that began in a span, in milliseconds."""
        found: dict[str, list[float]] = {}
        for kind, start, took in self.samples:
            if began <= start < ended:
                found.setdefault(kind, []).append(took * 1e3)
        return {kind: quantile(times, 0.99) for kind, times in found.items()}


@asynccontextmanager
async def quiet_tenant(stage: Stage) -> AsyncIterator[Quiet]:
    """Run the quiet tenant as alice; ready once its records are delivered."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.abuse.quiet",
        json.dumps(stage.config("alice")), SECRET, ALICES,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, limit=1 << 24, env=dict(os.environ),
    )  # fmt: skip
    assert process.stdout is not None
    quiet = Quiet()
    reading = asyncio.ensure_future(quiet.read(process.stdout))
    try:
        began = time.monotonic()
        while not any(kind == "deliver" for kind, _, _ in quiet.samples):
            if time.monotonic() - began > FIRST_S or process.returncode is not None:
                raise AssertionError(f"the quiet tenant gets nothing: {quiet.errors[:3]}")
            await asyncio.sleep(0.05)
        yield quiet
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


@dataclass(frozen=True, slots=True)
class Measured:
    """Quiet and abused p99, of the kind of call that suffered most."""

    ratio: float
    kind: str
    quiet_ms: float
    abused_ms: float

    @property
    def holds(self) -> bool:
        """Whether others were served as promised."""
        return self.ratio <= RATIO_MAX or self.abused_ms <= HELD_MS

    def __str__(self) -> str:
        return (
            f"{self.ratio:4.1f} x  {self.kind} p99 {self.quiet_ms:.0f} -> {self.abused_ms:.0f} ms"
        )


async def tried(stage: Stage, quiet: Quiet, kind: Abuse) -> Outcome:
    """Try a kind, up to three times if others were slowed; everything else is judged each time."""
    if kind.first is not None:
        await kind.first(stage)
    wrong: list[str] = []
    best: Measured | None = None
    tries = 0
    held = stage.memory()
    while tries < TRIES and (best is None or not best.holds) and not wrong:
        tries += 1
        measured, found = await _measured(stage, quiet, kind)
        wrong += found
        if measured is not None and (best is None or measured.ratio < best.ratio):
            best = measured
    if best is not None and not best.holds:
        wrong.append(f"others waited: {best}")
    about = f"finding {kind.finding}, " if kind.finding else ""
    again = f" (try {tries})" if tries > 1 else ""
    grown = "".join(
        f", {name} +{(size - held.get(name, 0)) >> 20} MiB"
        for name, size in stage.memory().items()
        if size - held.get(name, 0) >= GROWN_BYTES
    )
    notes = f"{best}{again}; {about}by {', '.join(kind.who)}{grown}"
    return Outcome(tuple(wrong), (best.abused_ms,) if best else (), notes)


async def _measured(stage: Stage, quiet: Quiet, kind: Abuse) -> tuple[Measured | None, list[str]]:
    before = stage.processes()
    stage.revealed.clear()
    quiet.errors.clear()
    stage.may_see = kind.may_see
    failed = len(stage.tracebacks())
    calm_from = time.monotonic()
    await asyncio.sleep(QUIET_S)
    began = time.monotonic()
    wrong = await _abuse(stage, kind, began)
    ended = max(time.monotonic(), began + ABUSED_S)
    await asyncio.sleep(ended - time.monotonic() + SETTLE_S)
    if not await quiet.until(ended, CAUGHT_UP_S):
        wrong.append(f"the quiet tenant still waits {CAUGHT_UP_S:.0f} s later")
    calm, abused = quiet.p99_ms(calm_from, began), quiet.p99_ms(began, ended)
    quiet.samples.clear()
    wrong += [f"the quiet tenant was refused: {each}" for each in quiet.errors[:3]]
    wrong += stage.revealed[:3]
    after = stage.processes()
    wrong += [f"{name} ended" for name, seen in before.items() if after.get(name) != seen]
    wrong += stage.tracebacks()[failed:][:3]
    ratios = [
        Measured(abused[each] / calm[each], each, calm[each], abused[each])
        for each in sorted(calm)
        if each in abused
    ]
    return max(ratios, key=lambda each: each.ratio, default=None), wrong


async def _abuse(stage: Stage, kind: Abuse, began: float) -> list[str]:
    """Let each principal try; return what went wrong beyond what others notice."""
    try:
        async with asyncio.timeout(KIND_TIMEOUT_S):
            while True:
                for who in kind.who:
                    await kind.run(stage, who)
                if kind.once or time.monotonic() - began >= ABUSED_S:
                    return []
    except AssertionError as error:
        return [str(error) or "it did not hold"]
    except TimeoutError:
        return [f"the abuse was not over after {KIND_TIMEOUT_S:.0f} s"]
