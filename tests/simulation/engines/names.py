"""The engines by name."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.engines.embedded import EmbeddedEngine
from tests.simulation.engines.engine import Engine
from tests.simulation.engines.kafka import KafkaEngine

if TYPE_CHECKING:
    from tests.simulation.world import World

ENGINES: dict[str, Callable[["World", Random], Engine]] = {
    "embedded": EmbeddedEngine,
    "kafka": KafkaEngine,
}


def engine_of(name: str, world: "World", rng: Random) -> Engine:
    """Return a new engine."""
    return ENGINES[name](world, rng)
