"""Where settings of clients come from besides the program: a file, the environment."""

import os
from collections.abc import Mapping
from pathlib import Path

from sharemesh.client.config import ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS, Setting
from sharemesh.client.errors import ConfigError

ENVIRONMENT_PREFIX = "SHAREMESH_"
FILE_VARIABLE = "SHAREMESH_CLIENT_CONFIG"
"""Names a file of ``name=value`` lines; variables win over it."""

_SHORT = {"BOOTSTRAP": "bootstrap.servers"}


def from_file(path: Path) -> dict[str, str]:
    """Read ``name=value`` lines as in Kafka's property files; # and ! begin comments.

    Raises:
        ConfigError: A line has no ``=``, or the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read configuration file {path}: {error.strerror}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, mark, value = text.partition("=")
        if not mark:
            raise ConfigError(f"{path} line {number}: expected name=value, found {text!r}")
        found[name.strip()] = value.strip()
    return found


def from_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return settings of the file that ``SHAREMESH_CLIENT_CONFIG`` names, and of variables.

    A variable is ``SHAREMESH_`` and the name in capitals, dots as underscores; it wins over the
    file. ``SHAREMESH_BOOTSTRAP`` is short for ``bootstrap.servers``. Variables that are empty or
    no setting of a client are left alone; functions (deserializers) cannot be given so.

    Raises:
        ConfigError: The file cannot be read.
    """
    source = os.environ if variables is None else variables
    names = {
        ENVIRONMENT_PREFIX + setting.name.upper().replace(".", "_"): setting.name
        for setting in (*CONSUMER_SETTINGS, *PRODUCER_SETTINGS, *ADMIN_SETTINGS)
        if setting.default is not None
    }
    names |= {ENVIRONMENT_PREFIX + short: name for short, name in _SHORT.items()}
    found = from_file(Path(source[FILE_VARIABLE])) if source.get(FILE_VARIABLE) else {}
    return found | {names[key]: value for key, value in source.items() if value and key in names}


def those_of(settings: tuple[Setting, ...], found: Mapping[str, str]) -> dict[str, str]:
    """Return what one kind of client knows of settings that are for all kinds."""
    known = {setting.name for setting in settings}
    return {name: value for name, value in found.items() if name in known}
