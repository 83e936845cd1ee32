"""Where settings come from: flags over environment over the configuration file."""

import argparse
import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.group_config.evaluate import check_cluster_configs
from sharemesh.domain.setting_values import (
    SettingValueError,
    nearest,
    one_of,
    true_or_false,
    unknown_setting,
    whole_number,
)
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.kafka_settings import check_kafka, check_kafka_listener
from sharemesh.serve.settings.settings import ALL_ROLES, ServeSettings, UpSettings, names_of

ENVIRONMENT_PREFIX = "SHAREMESH_"

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a configuration file says, by its sections."""

    serve: Mapping[str, object] = field(default_factory=dict)
    up: Mapping[str, object] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    name: str = "the configuration file"


def read_file(path: Path | None) -> ConfigFile:
    """Return the sections of a TOML or YAML file (none: empty).

    Raises:
        StartError: SETTINGS; unreadable, malformed, or a section is no table.
    """
    if path is None:
        return ConfigFile()
    tree = _parsed(path)
    up = _table(tree, "up", path)
    configs = {name: str(_plain(value)) for name, value in _flat(_table(tree, "settings", path))}
    return ConfigFile(tree, up, configs, str(path))


def serve_settings(
    flags: Mapping[str, object], environment: Mapping[str, str], file: ConfigFile
) -> ServeSettings:
    """Return the settings of one process, checked one by one and against each other.

    Raises:
        StartError: SETTINGS, naming setting, value and what to do.
    """
    _check_names(file)
    given = dict(file.serve) | from_environment(ServeSettings, environment)
    given |= {name: value for name, value in flags.items() if name in names_of(ServeSettings)}
    given["configs"] = _configs(file, flags.get("configs"))
    settings = build(ServeSettings, given, source="the settings")
    _check_together(settings)
    return settings


def up_settings(flags: Mapping[str, object], file: ConfigFile) -> UpSettings:
    """Return the settings of the local cluster.

    Raises:
        StartError: SETTINGS, naming setting, value and what to do.
    """
    given = dict(file.up)
    given |= {name: value for name, value in flags.items() if name in names_of(UpSettings)}
    return build(UpSettings, given, source=f"[up] of {file.name}")


def add_flags(parser: argparse.ArgumentParser, record: type[Any], *, leave_out: str = "") -> None:
    """Add a flag for each setting of a record class but those in ``leave_out`` (commas)."""
    for each in record.__dataclass_fields__.values():
        if each.name not in names_of(record) or each.name in leave_out.split(","):
            continue
        shown = "" if each.default in (None, "", ()) else f" (default: {each.default})"
        parser.add_argument(
            "--" + each.name.replace("_", "-"),
            dest=each.name,
            default=None,
            metavar="VALUE",
            help=each.metadata["documentation"] + shown,
        )


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``--config FILE`` and ``--set NAME=VALUE``."""
    parser.add_argument("--config", type=Path, default=None, help="TOML or YAML file")
    parser.add_argument(
        "--set",
        dest="configs",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="setting of the cluster by Kafka's name, for example group.share.max.size=100",
    )


def add_serve_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``serve`` to a parser."""
    add_config_flags(parser)
    parser.add_argument(
        "--parent-pid", type=int, default=None, help="end when this process ends (supervisors)"
    )
    parser.add_argument(
        "--report-descriptor", type=int, default=None, help="tell leases and readiness there"
    )
    parser.add_argument(
        "--guard",
        action="store_true",
        help="run the role as a child and revoke its lease if it dies (containers)",
    )
    add_flags(parser, ServeSettings)


def build(record: type[Record], given: Mapping[str, object], *, source: str) -> Record:
    """Return the record with what was given over its defaults.

    Raises:
        StartError: SETTINGS; a name is unknown (the nearest one is offered), a value has the
            wrong kind or is out of bounds.
    """
    known = {each.name: each for each in dataclasses.fields(record)}  # type: ignore[arg-type]
    values = {}
    for name, value in given.items():
        if name not in known:
            raise _unknown(name, known, source)
        try:
            values[name] = _converted(known[name], value)
        except SettingValueError as error:
            raise StartError(
                ExitCode.SETTINGS, f"setting {name}: value {value!r} {error}"
            ) from None
    for name, each in known.items():
        if name not in values and each.default is MISSING and each.default_factory is MISSING:
            raise StartError(ExitCode.SETTINGS, f"setting {name} is missing in {source}")
    return record(**values)


def from_environment(
    record: type[Any], environment: Mapping[str, str], *, prefix: str = ENVIRONMENT_PREFIX
) -> dict[str, object]:
    """Return what variables ``<prefix><NAME>`` set; other variables are not ours to judge."""
    return {
        name: environment[prefix + name.upper()]
        for name in names_of(record)
        if prefix + name.upper() in environment
    }


def _unknown(name: str, known: Iterable[str], source: str) -> StartError:
    return StartError(ExitCode.SETTINGS, unknown_setting(name, known, f" in {source}"))


def _converted(field: Field[Any], value: object) -> object:
    kind = getattr(field.type, "__name__", str(field.type))
    if kind == "int":
        return whole_number(value, field.metadata.get("minimum"), field.metadata.get("maximum"))
    if kind == "bool":
        return true_or_false(value)
    if kind.startswith("tuple"):
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            raise SettingValueError("is not a list")
        return tuple(str(part).strip() for part in parts if str(part).strip())
    if "Path" in kind:
        text = _text(value)
        return Path(text) if text else None
    if kind == "str":
        return _choice(_text(value), field.metadata.get("choices", ()))
    return value


def _text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str):
        raise SettingValueError("is not a text")
    return value.strip()


def _choice(value: str, choices: tuple[str, ...]) -> str:
    try:
        return one_of(value, choices) if choices else value
    except SettingValueError as error:
        raise SettingValueError(f"{error}; did you mean {nearest(value, choices)}?") from None


def _check_names(file: ConfigFile) -> None:
    for name in file.serve:
        if name not in names_of(ServeSettings):
            raise _unknown(name, (*names_of(ServeSettings), "settings", "up"), file.name)


def _configs(file: ConfigFile, flags: object) -> dict[str, str]:
    configs = dict(file.configs)
    for pair in flags if isinstance(flags, list) else ():
        name, equals, value = str(pair).partition("=")
        if not equals:
            raise StartError(ExitCode.SETTINGS, f"--set {pair}: write it as name=value")
        configs[name.strip()] = value.strip()
    try:
        return check_cluster_configs(configs)
    except RefusedError as error:
        raise StartError(ExitCode.SETTINGS, error.message) from error


def _check_together(settings: ServeSettings) -> None:
    if settings.in_memory and settings.role != ALL_ROLES:
        raise StartError(
            ExitCode.SETTINGS,
            f"role {settings.role} needs etcd: set etcd_endpoints to host:port, or use role all",
        )
    for endpoint in settings.etcd_endpoints:
        if not endpoint.rpartition(":")[2].isdecimal():
            raise StartError(
                ExitCode.SETTINGS, f"setting etcd_endpoints: {endpoint!r} is not host:port"
            )
    if not settings.cluster_id or "/" in settings.cluster_id:
        raise StartError(
            ExitCode.SETTINGS,
            f"setting cluster_id: value {settings.cluster_id!r} is empty or holds a slash",
        )
    for one, other in (
        ("tls_certificate", "tls_key"),
        ("etcd_tls_certificate", "etcd_tls_key"),
    ):
        if (getattr(settings, one) is None) != (getattr(settings, other) is None):
            raise StartError(ExitCode.SETTINGS, f"settings {one} and {other} go together; set both")
    if settings.tls_authority is not None and settings.tls_certificate is None:
        raise StartError(
            ExitCode.SETTINGS, "setting tls_authority needs tls_certificate and tls_key as well"
        )
    _check_tokens(settings)
    check_kafka(settings)
    check_kafka_listener(settings)
    wrong = [name for name in settings.super_users if not name.startswith("User:")]
    if wrong:
        raise StartError(
            ExitCode.SETTINGS, f"setting super_users: {wrong[0]!r} is not of the form User:<name>"
        )
    if settings.listen_host in {"0.0.0.0", "::"} and not settings.advertised_host:  # noqa: S104
        raise StartError(
            ExitCode.SETTINGS,
            f"listen_host {settings.listen_host} is no address to reach: set advertised_host",
        )


def _check_tokens(settings: ServeSettings) -> None:
    """Refuse settings of tokens with which none could hold (spec IDN-2, IDN-3)."""
    needed = ("token_issuer", "token_audience", "token_keys")
    given = [name for name in needed if getattr(settings, name)]
    if given and len(given) < len(needed):
        missing = ", ".join(name for name in needed if name not in given)
        raise StartError(ExitCode.SETTINGS, f"setting {given[0]} needs {missing} as well")
    if settings.token_file is not None and settings.tls_certificate is None:
        raise StartError(ExitCode.SETTINGS, "setting token_file: tokens are sent over TLS only")
    if not given:
        return
    if settings.tls_certificate is None:
        raise StartError(
            ExitCode.SETTINGS,
            "setting token_issuer: tokens are taken over TLS only; set tls_certificate and tls_key",
        )
    if settings.mutual_tls:
        raise StartError(
            ExitCode.SETTINGS,
            "setting token_issuer: with client certificates required every caller is who its "
            "certificate says; set tls_client_certificates to none",
        )


def _parsed(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(ExitCode.SETTINGS, f"cannot read {path}: {error}") from error
    if path.suffix.lower() in {".yaml", ".yml"}:
        return _parsed_yaml(path, text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StartError(ExitCode.SETTINGS, f"{path} is not TOML: {error}") from error


def _parsed_yaml(path: Path, text: str) -> dict[str, object]:
    try:
        import yaml
    except ImportError as error:
        raise StartError(
            ExitCode.SETTINGS, f"{path} needs the package pyyaml: install it or write TOML"
        ) from error
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        line = " ".join(str(error).split())
        raise StartError(ExitCode.SETTINGS, f"{path} is not YAML: {line}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise StartError(ExitCode.SETTINGS, f"{path} holds no mapping of names to values")
    return {str(name): value for name, value in tree.items()}


def _table(tree: dict[str, object], name: str, path: Path) -> dict[str, object]:
    table = tree.pop(name, {})
    if not isinstance(table, dict):
        raise StartError(ExitCode.SETTINGS, f"{name} in {path} is no table of names and values")
    return table


def _flat(table: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Return dotted names: TOML reads ``group.share.max.size = 1`` as nested tables."""
    pairs: list[tuple[str, object]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            pairs += _flat(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, value))
    return pairs


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
