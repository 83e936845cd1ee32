"""The stamped log holds in every interleaving, and each planted mutant does not (STL-5..13)."""

import pytest

from sharemesh.domain.stamped_log.judgement import Judgement, judge
from sharemesh.domain.stamped_log.stamp import StampKind
from sharemesh.domain.stamped_log.take_over import FencedBelow, NewestUnit, newest_in
from sharemesh.domain.stamped_log.writing import (
    FencedAbove,
    StampAnew,
    UnitCounts,
    WriterPosition,
    after_reading,
)
from tests.backends.kafka.stamped_world import Config, Rules, later_epoch_wins, search

SMALL = Config()
PRUNING = Config(prunes=1, junk=0, losses=0, pruners=1)

SPACES = {
    "two writers, one unit each, two losses": Config(losses=2, quota=1, cap=5),
    "two writers, pruning, small": Config(junk=0, losses=0, prunes=1, cap=5),
    "equal epochs, as of a restored store": Config(epochs=(2, 2), prunes=1, junk=0, cap=5),
    "falling epochs, as of a restored store": Config(epochs=(2, 1), prunes=1, junk=0, cap=5),
}
LARGE_SPACES = {
    "two writers, pruning": Config(junk=0, losses=0, prunes=1),
    "two writers, pruning, one loss": Config(junk=0, prunes=1, cap=6),
    "three writers, one unit each": Config(epochs=(1, 2, 3), quota=1, junk=0, losses=0, cap=6),
}


@pytest.mark.parametrize("config", SPACES.values(), ids=SPACES)
def test_every_interleaving_keeps_the_promises(config):
    found = search(config)
    assert (found.violation, found.steps) == ("", ())
    assert found.complete


@pytest.mark.slow
@pytest.mark.parametrize("config", LARGE_SPACES.values(), ids=LARGE_SPACES)
def test_every_interleaving_of_more_keeps_the_promises(config):
    found = search(config)
    assert (found.violation, found.steps) == ("", ())
    assert found.complete


def any_unit_counts(batch, log):
    found = judge(batch, log)
    is_unit = batch.stamp is not None and batch.stamp.kind is StampKind.UNIT
    return Judgement.COUNTS if is_unit else found


def confirm_anything(stamp, base_offset):
    return UnitCounts(base_offset + stamp.record_count)


def no_look_below(window, own):
    found = newest_in(window, own._replace(epoch=2**31 - 1))
    assert not isinstance(found, FencedBelow)
    return found


def no_look_for_fences(stamp, batches, copy_end):
    found = after_reading(stamp, batches, copy_end)
    return StampAnew(copy_end) if isinstance(found, FencedAbove) else found


def end_at_the_copy(stamp, batches, copy_end):
    """Go on behind the copy as soon as the own unit is found, without a look at what is between."""
    found = after_reading(stamp, batches, copy_end)
    return UnitCounts(copy_end) if isinstance(found, UnitCounts) else found


def any_fence_stops(stamp, batches, copy_end):
    for batch in batches:
        other = batch.stamp
        if other is not None and other.kind is StampKind.FENCE and other.writer != stamp.writer:
            return FencedAbove(other.epoch, batch.base_offset)
    return after_reading(stamp, batches, copy_end)


def prune_all_that_is_declared(position: WriterPosition) -> int:
    return position.declared_start


def first_unit_is_enough(window, own):
    """Stop at the newest unit though a fence of another lies above it."""
    for batch in reversed(window):
        if judge(batch, own.log) is Judgement.COUNTS:
            return NewestUnit(batch.stamp.number + 1, batch.stamp.start, batch.base_offset)
    return None


MUTANTS = {
    "no base check": (Rules(after_answer=confirm_anything), SMALL),
    "void units replayed": (Rules(judge=any_unit_counts), SMALL),
    "two outstanding": (Rules(outstanding=2), SMALL),
    "stamp anew without reading": (Rules(reads_before_stamp=False), SMALL),
    "load up to a high watermark, not to the own fence": (Rules(load_to_fence=False), SMALL),
    "later epoch wins": (
        Rules(history=later_epoch_wins, after_answer=confirm_anything),
        SMALL,
    ),
    "acks=1": (Rules(acks_all=False), SMALL),
    "fences are not looked for": (Rules(after_reading=no_look_for_fences), SMALL),
    "goes on behind its copy": (Rules(after_reading=end_at_the_copy), SMALL),
    "any foreign fence stops a writer": (Rules(after_reading=any_fence_stops), SMALL),
    "nothing below the fence stops a taker": (Rules(newest_in=no_look_below), SMALL),
    "fences above the newest unit are not looked at": (
        Rules(newest_in=first_unit_is_enough),
        SMALL,
    ),
    "prune what an unconfirmed unit replaces": (Rules(prune_confirmed=False), PRUNING),
    "load goes on when the log start has moved": (
        Rules(restart_load=False, prune_limit=prune_all_that_is_declared),
        PRUNING,
    ),
    "prune the newest unit": (
        Rules(prune_limit=prune_all_that_is_declared),
        Config(epochs=(2, 1), prunes=1, junk=0, cap=6),
    ),
    "reads go with an outstanding unit": (Rules(reads_ride=True), SMALL),
}


@pytest.mark.parametrize(("rules", "config"), MUTANTS.values(), ids=MUTANTS)
def test_a_planted_mutant_is_found(rules, config):
    found = search(config, rules)
    assert found.violation, f"{found.states} states, and nothing was found"
    assert found.steps
