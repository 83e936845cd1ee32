"""Entities, in short."""

from sharemesh.domain.quota.names import EntityType, QuotaEntity


def user(name: str | None = None) -> QuotaEntity:
    return QuotaEntity(EntityType.USER, name)


def group(name: str | None = None) -> QuotaEntity:
    return QuotaEntity(EntityType.GROUP, name)
