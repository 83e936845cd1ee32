"""Patches on the product for one run: observers that only look, and planted bugs."""

from typing import Any


class Patches:
    """Sets attributes and puts back what was there."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any]] = []

    def setattr(self, target: Any, name: str, value: Any) -> None:
        """Replace an attribute until ``undo``."""
        self._old.append((target, name, target.__dict__[name]))
        setattr(target, name, value)

    def undo(self) -> None:
        """Put everything back, last first."""
        while self._old:
            target, name, value = self._old.pop()
            setattr(target, name, value)
