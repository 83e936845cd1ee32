"""The engines by name."""

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.engines.embedded import EmbeddedEngine
from tests.simulation.engines.engine import Engine

if TYPE_CHECKING:
    from tests.simulation.world import World

ENGINES = ("embedded",)


def engine_of(name: str, world: "World", rng: Random) -> Engine:
    """Return a new engine."""
    assert name in ENGINES
    return EmbeddedEngine(world, rng)
