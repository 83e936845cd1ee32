"""Settings as Kafka's answers tell them: value, type, and where the value is from."""

from collections.abc import Mapping

from sharemesh.domain.group_config.definition import INT32_MAX, ConfigDefinition, ValueKind
from sharemesh.v1.common_pb2 import ConfigEntry

_OF_TOPIC, _OF_CLUSTER, _DEFAULT, _OF_GROUP = 1, 3, 5, 8
_SOURCES = {"topic": _OF_TOPIC, "cluster": _OF_CLUSTER, "group": _OF_GROUP}
_TEXT, _INT, _LONG = 2, 3, 5
_TYPES = {ValueKind.BOOLEAN: 1, ValueKind.DECIMAL: 6}


def config_entry(
    entry: ConfigEntry, definitions: Mapping[str, ConfigDefinition], *, described: bool
) -> dict[str, object]:
    """Return a setting in force; ``described``: with what it is for."""
    source = _SOURCES.get(entry.source, _DEFAULT)
    definition = definitions.get(entry.name)
    synonyms = [{"name": entry.name, "value": entry.value, "source": source}]
    if source == _OF_GROUP and definition is not None and not definition.fallback:
        synonyms.append({"name": entry.name, "value": definition.default, "source": _DEFAULT})
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": False,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": synonyms,
        "config_type": _type(definition),
        "documentation": entry.documentation if described else None,
    }


def created_entries(
    definitions: Mapping[str, ConfigDefinition], given: Mapping[str, str]
) -> list[dict[str, object]]:
    """Return the settings of something that was created with those that were given."""
    return [
        {
            "name": name,
            "value": given.get(name, definition.default),
            "read_only": False,
            "config_source": _OF_TOPIC if name in given else _DEFAULT,
            "is_sensitive": False,
        }
        for name, definition in sorted(definitions.items())
        if not definition.unsupported
    ]


def _type(definition: ConfigDefinition | None) -> int:
    if definition is None:
        return _TEXT
    if definition.kind is ValueKind.INTEGER:
        return _INT if definition.maximum <= INT32_MAX else _LONG
    return _TYPES.get(definition.kind, _TEXT)
