"""Bounds of the embedded logs, from the settings of a process."""

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.serve.settings.settings import ServeSettings


def log_settings(settings: ServeSettings) -> LogSettings:
    """Return the shipped bounds; only ``durability: os`` leaves fsync out."""
    return LogSettings(fsync=settings.durability == "fsync")
