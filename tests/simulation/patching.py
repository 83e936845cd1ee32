"""Patches on the product for one run: observers that only look, and planted bugs."""

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patches:
    """Sets attributes and items, and puts back what was there: as pytest's, without pytest."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def setattr(self, target: Any, name: str, value: Any, *, raising: bool = True) -> None:
        """Replace an attribute until ``undo``; it must exist, unless ``raising`` is off."""
        old = target.__dict__.get(name, _ABSENT)
        if old is _ABSENT and raising:
            raise AttributeError(f"{target} has no attribute {name} of its own")
        if old is _ABSENT:
            self._undo.append(lambda: delattr(target, name))
        else:
            self._undo.append(lambda: setattr(target, name, old))
        setattr(target, name, value)

    def setitem(self, target: dict[Any, Any], key: object, value: object) -> None:
        """Replace an item that exists until ``undo``."""
        old = target[key]
        self._undo.append(lambda: target.__setitem__(key, old))
        target[key] = value

    def undo(self) -> None:
        """Put everything back, last first."""
        while self._undo:
            self._undo.pop()()
