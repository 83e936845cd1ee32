"""Which topics of a Kafka cluster may be attached, and when one of them counts as gone."""

import re
from collections.abc import Sequence

_PATTERN = re.compile(r"!?[a-zA-Z0-9._*?-]+")
NAME_CHARS_MAX = 249


def pattern_problem(pattern: str) -> str:
    """Return why this is no pattern of topic names; empty: it is one."""
    if len(pattern) > NAME_CHARS_MAX + 1:
        return f"a pattern of {len(pattern)} characters; a topic's name has at most 249"
    if _PATTERN.fullmatch(pattern) is None:
        return (
            f"{pattern!r} is no pattern; write letters, digits, dots, underscores, dashes, * and "
            "?, with ! in front to leave topics out"
        )
    return ""


class TopicPatterns:
    """Names that some pattern matches and no pattern with ! in front does (KTP-1)."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._taken = _together([each for each in patterns if not each.startswith("!")])
        self._left_out = _together([each[1:] for each in patterns if each.startswith("!")])

    def match(self, name: str) -> bool:
        """Return whether a topic of this name may be attached."""
        return _matches(self._taken, name) and not _matches(self._left_out, name)


def _together(patterns: Sequence[str]) -> re.Pattern[str] | None:
    if not patterns:
        return None
    return re.compile("|".join(_expression(each) for each in patterns))


def _expression(pattern: str) -> str:
    parts = {"*": ".*", "?": "."}
    return "".join(parts.get(character, re.escape(character)) for character in pattern)


def _matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is not None and pattern.fullmatch(name) is not None
