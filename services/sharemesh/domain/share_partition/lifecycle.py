"""Lifecycle of a share partition at its leader."""

from enum import StrEnum


class Lifecycle(StrEnum):
    """EMPTY, INITIALIZING, then ACTIVE or FAILED; any to FENCED (spec IFB-6)."""

    EMPTY = "EMPTY"
    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    FAILED = "FAILED"
    FENCED = "FENCED"
