"""The sixteen invariants, one object each: what it says, and how often a run judged it.

Those that this version has are INV-1 to INV-9 and INV-12 to INV-16.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invariant:
    """One promise; one that belongs to a feature of the future is never judged."""

    number: int
    says: str
    exists: bool = True

    @property
    def counter(self) -> str:
        """The counter of its judgements."""
        return f"invariant {self.number:2d} judged"

    def judged(self, counters: Counter[str], times: int = 1) -> None:
        """Take note that it was looked at."""
        counters[self.counter] += times

    def broken(self, text: str) -> str:
        """Return a violation's text with the invariant's name in it."""
        return f"{text} ({self.mark})"

    @property
    def mark(self) -> str:
        """What violations of it carry."""
        return f"invariant {self.number}: {self.says}"


EXCLUSIVE_LOCK = Invariant(1, "one valid lock for an offset, an ended one changes nothing")
NO_EARLY_REDELIVERY = Invariant(2, "no redelivery before release, expiry or disconnect")
FINAL = Invariant(3, "acknowledged and archived are final, over any crash")
AT_LEAST_ONCE = Invariant(4, "every record ends acknowledged or archived")
DELIVERY_COUNT = Invariant(5, "the delivery count is the number of grants")
NEVER_BACK = Invariant(6, "start offset and epochs never go back")
STATE_IS_REPLAY = Invariant(7, "snapshot, log and generation fold to the same state")
BATCHES_IN_ORDER = Invariant(8, "batches neither overlap nor leave gaps")
FENCED = Invariant(9, "who was deposed commits nothing")
DEAD_LETTERS = Invariant(10, "one dead letter for an offset", exists=False)
KEY_ORDER = Invariant(11, "one record of a key in flight, in order", exists=False)
RENEW = Invariant(12, "RENEW never resurrects and never shortens a lock")
LIMITS = Invariant(13, "no more records than were asked for")
PROGRESS = Invariant(14, "everything is finished in time once faults are healed")
EXPLAIN_IS_TRUE = Invariant(15, "explain agrees with the model")
METRICS_AGREE = Invariant(16, "metrics agree with what the machines did")

INVARIANTS = (
    EXCLUSIVE_LOCK,
    NO_EARLY_REDELIVERY,
    FINAL,
    AT_LEAST_ONCE,
    DELIVERY_COUNT,
    NEVER_BACK,
    STATE_IS_REPLAY,
    BATCHES_IN_ORDER,
    FENCED,
    DEAD_LETTERS,
    KEY_ORDER,
    RENEW,
    LIMITS,
    PROGRESS,
    EXPLAIN_IS_TRUE,
    METRICS_AGREE,
)


def told(counters: Counter[str], violations: Iterable[str]) -> list[str]:
    """Return one line for each invariant: judged how often, broken how often."""
    texts = list(violations)
    lines = []
    for each in INVARIANTS:
        broken = sum(each.mark in text for text in texts)
        seen = f"{counters[each.counter]:11,d} judged, {broken} broken"
        outcome = seen if each.exists else "        not in this version"
        lines.append(f"{each.number:4d}  {each.says:<60} {outcome}")
    others = sum(not any(each.mark in text for each in INVARIANTS) for text in texts)
    return [
        *lines,
        f"      {'histories against the logs, errors in logs, busy loops':<60} {others} broken",
    ]
