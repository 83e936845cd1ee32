"""Every setting of this version, from where it is defined, for ``configs explain``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sharemesh.client.config import (
    ADMIN_SETTINGS,
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    REJECTED_BY_SHARE_CONSUMERS,
    Setting,
    instead_of,
)
from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS
from sharemesh.domain.group_config.definition import INT32_MAX, ConfigDefinition
from sharemesh.domain.group_config.group_definitions import GROUP_CONFIGS
from sharemesh.domain.topics import INT64_MAX, TOPIC_CONFIGS
from sharemesh.serve.settings.fields import ENVIRONMENT_PREFIX, names_of
from sharemesh.serve.settings.settings import ServeSettings, UpSettings

_UNLIMITED = (None, INT32_MAX, INT64_MAX)


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One name: what it belongs to, default, allowed values (bounds included), what it does."""

    name: str
    of: str
    default: str
    allowed: str
    what: str


def catalogue() -> list[CatalogueEntry]:
    """Return all settings, those of groups first."""
    return [
        *_defined(GROUP_CONFIGS, "group"),
        *_defined(CLUSTER_CONFIGS, "cluster"),
        *_defined(TOPIC_CONFIGS, "topic"),
        *_of_client(CONSUMER_SETTINGS, "share consumer"),
        *_of_client(PRODUCER_SETTINGS, "producer"),
        *_of_client(ADMIN_SETTINGS, "admin client"),
        *_of_process(ServeSettings, "process"),
        *_of_process(UpSettings, "local cluster"),
        *(
            CatalogueEntry(
                name, "share consumer", "none", "nothing", f"refused; {instead_of(name)}"
            )
            for name in REJECTED_BY_SHARE_CONSUMERS
        ),
    ]


def _defined(definitions: Mapping[str, ConfigDefinition], of: str) -> Iterable[CatalogueEntry]:
    for each in definitions.values():
        if each.unsupported:
            yield CatalogueEntry(each.name, of, "none", "nothing", each.unsupported)
            continue
        default = each.default or (f"the cluster's {each.fallback}" if each.fallback else "none")
        yield CatalogueEntry(each.name, of, default, _allowed(each), each.documentation)


def _allowed(each: ConfigDefinition) -> str:
    if each.choices:
        return ", ".join(each.choices)
    if each.kind.value != "integer":
        return f"a {each.kind.value}"
    if each.at_least:
        return f"{each.minimum} or more, from {each.at_least} to {each.at_most}"
    return _bounds(each.minimum, each.maximum)


def _bounds(least: int, most: int | None) -> str:
    return f"{least} or more" if most in _UNLIMITED else f"{least} to {most}"


def _of_client(settings: tuple[Setting, ...], of: str) -> Iterable[CatalogueEntry]:
    for each in settings:
        default = "none" if each.default in (None, "") else str(each.default)
        bounds = "any" if each.least is None else _bounds(each.least, each.most)
        yield CatalogueEntry(each.name, of, default, ", ".join(each.choices) or bounds, each.what)


def _of_process(
    record: type[ServeSettings] | type[UpSettings], of: str
) -> Iterable[CatalogueEntry]:
    for name in names_of(record):
        each = record.__dataclass_fields__[name]
        about = each.metadata
        bounds = "any"
        if about["minimum"] is not None:
            bounds = _bounds(about["minimum"], about["maximum"])
        default = "none" if each.default in (None, "", ()) else str(each.default)
        what = about["documentation"]
        if record is ServeSettings:
            what += f" (variable {ENVIRONMENT_PREFIX}{name.upper()})"
        yield CatalogueEntry(name, of, default, ", ".join(about["choices"]) or bounds, what)
