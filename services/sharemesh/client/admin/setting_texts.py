"""Settings as applications give them, and as Kafka writes them (spec ADM-3)."""

from collections.abc import Mapping

from sharemesh.client.errors import IllegalArgumentError

_LEAST, _MOST = -(2**63), 2**63 - 1


def setting_text(name: object, value: object) -> str:
    """Return a value as text: ``true`` and ``false``, whole numbers in decimal.

    Raises:
        IllegalArgumentError: The name is no text, or the value none of these.
    """
    if not isinstance(name, str):
        raise IllegalArgumentError(f"{name!r} is no name of a setting: give text")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and _LEAST <= value <= _MOST:
        return str(int(value))
    if isinstance(value, str):
        return value
    said = f"{value!r:.100}" if not isinstance(value, int) else "a number beyond 64 bits"
    raise IllegalArgumentError(
        f"{name} is {said}: give text, True or False, or a whole number; anything else is written "
        "as text, for example '1.5' or '1s,10s'"
    )


def changed_texts(changes: Mapping[str, str | int | None]) -> dict[str, str | None]:
    """Return changes as texts; None: back to the default.

    Raises:
        IllegalArgumentError: As ``setting_text``.
    """
    return {
        name: None if value is None and isinstance(name, str) else setting_text(name, value)
        for name, value in changes.items()
    }
