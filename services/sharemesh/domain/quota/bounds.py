"""What bounds whom: an entity's own value, else the default of its type (spec QUO-2, QUO-3)."""

from collections.abc import Iterable, Mapping

from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName


class QuotaBounds:
    """Values by name and entity; a question costs two look-ups, however many there are."""

    def __init__(
        self,
        stored: Iterable[tuple[QuotaEntity, Mapping[QuotaName, float]]] = (),
        *,
        unbounded: frozenset[str] = frozenset(),
    ) -> None:
        """``unbounded`` are principals that nothing binds, whatever is stored (QUO-3)."""
        self._unbounded = unbounded
        self._values = {
            (name, entity.name): value
            for entity, values in stored
            for name, value in values.items()
        }

    def limit(self, name: QuotaName, entity: str) -> float | None:
        """Return the bound of a principal or group, as ``name`` says; None: it has none."""
        if not self._values:
            return None
        if entity in self._unbounded and name.entity_type is EntityType.USER:
            return None
        own = self._values.get((name, entity))
        return self._values.get((name, None)) if own is None else own
