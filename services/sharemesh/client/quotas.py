"""Quotas as the admin client gives and takes them: values by name, by entity."""

from collections.abc import Mapping

from sharemesh.client.errors import IllegalArgumentError
from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName
from sharemesh.v1 import admin_pb2 as pb

__all__ = ["EntityType", "QuotaEntity", "QuotaName"]

QuotaChanges = Mapping[str, float | None]


def alteration_of(entity: QuotaEntity, changes: QuotaChanges) -> pb.QuotaAlteration:
    """Return the message of changes of one entity."""
    return pb.QuotaAlteration(
        entity=[_component(entity)],
        ops=[
            pb.QuotaOperation(key=key, value=value or 0, remove=value is None)
            for key, value in changes.items()
        ],
    )


def filters_of(
    entity: QuotaEntity | None, entity_type: EntityType | None
) -> list[pb.QuotaFilterComponent]:
    """Return the filter for one entity, for those of a type, or for all.

    Raises:
        IllegalArgumentError: Both are given.
    """
    if entity is None:
        kinds = [] if entity_type is None else [entity_type.value]
        return [
            pb.QuotaFilterComponent(entity_type=kind, match=pb.QUOTA_MATCH_ANY) for kind in kinds
        ]
    if entity_type is not None:
        raise IllegalArgumentError("give an entity or a type of entities, not both")
    match = pb.QUOTA_MATCH_DEFAULT if entity.name is None else pb.QUOTA_MATCH_EXACT
    return [
        pb.QuotaFilterComponent(
            entity_type=entity.entity_type.value, match=match, match_text=entity.name
        )
    ]


def words_of(entity: QuotaEntity) -> str:
    """Return who an entity is, for an error or a table."""
    if entity.name is None:
        return f"default of {entity.entity_type.value}s"
    return f"{entity.entity_type.value} {entity.name}"


def entity_of(message: pb.DescribedQuotas) -> QuotaEntity:
    """Return the entity of an answer."""
    (component,) = message.entity
    name = component.entity_name if component.HasField("entity_name") else None
    return QuotaEntity(EntityType(component.entity_type), name)


def _component(entity: QuotaEntity) -> pb.QuotaEntity:
    return pb.QuotaEntity(entity_type=entity.entity_type.value, entity_name=entity.name)
