"""What bounds whom: an entity's own value, else the default of its type (spec QUO-2)."""

from collections.abc import Mapping

from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName


class QuotaBounds:
    """Values by entity; a question and a change cost the same, however many there are."""

    def __init__(self) -> None:
        self._values: dict[EntityType, dict[str | None, Mapping[QuotaName, float]]] = {
            each: {} for each in EntityType
        }
        self._empty = True

    def put(self, entity: QuotaEntity, values: Mapping[QuotaName, float]) -> None:
        """Replace all values of an entity; without any it is forgotten."""
        of_type = self._values[entity.entity_type]
        of_type.pop(entity.name, None)
        if values:
            of_type[entity.name] = values
        self._empty = not any(self._values.values())

    def values_of(self, entity: QuotaEntity) -> Mapping[str, float]:
        """Return the own values of an entity, by their names on the wire."""
        own = self._values[entity.entity_type].get(entity.name, {})
        return {name.value: value for name, value in own.items()}

    def limit(self, name: QuotaName, entity: str) -> float | None:
        """Return the bound of a principal or group, as ``name`` says; None: it has none."""
        if self._empty:
            return None
        of_type = self._values[name.entity_type]
        own = of_type.get(entity)
        if own is not None and name in own:
            return own[name]
        default = of_type.get(None)
        return None if default is None else default.get(name)
