"""Topics that somebody subscribes to and that are not known yet."""

from collections.abc import Iterable
from typing import Protocol


class TopicWishes(Protocol):
    """Told of subscriptions; where topics are created by hand nobody listens."""

    def want(self, names: Iterable[str]) -> None:
        """Ask for topics that groups subscribe to; known ones are fine, repeating it is too."""
        ...
