"""docs/reference/python.md: what applications import, from its docstrings."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any

from deploy.pages import REFERENCE, ROOT
from deploy.pages.rule_links import linked
from sharemesh import client
from sharemesh.client import acls, admin_results, errors, quotas, tracing
from sharemesh.client.config_sources import from_environment, from_file
from sharemesh.client.connect import Cluster
from sharemesh.client.producer import producer

PAGE = REFERENCE / "python.md"

HEAD = """# Python API

This page is made from the docstrings: `make docs` writes it, and a test fails when it does not
fit. Everything without another module named comes from `sharemesh.client`. Settings are in
[Configuration](configuration.md), Kafka's names for all of it in
[Compatibility with Apache Kafka](compatibility.md). Five programs to begin with are under
[examples](../../examples).
"""


def _classes_of(module: Any) -> Iterator[type[Any]]:
    for each in vars(module).values():
        if inspect.isclass(each) and each.__module__ == module.__name__:
            yield each


SECTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("Connecting", (client.connect, Cluster)),
    (
        "Consuming",
        (
            client.ShareConsumer,
            client.AsyncShareConsumer,
            client.RunOptions,
            client.RetryPolicy,
            client.BreakerPolicy,
            client.AcknowledgeType,
        ),
    ),
    (
        "Records",
        (
            client.ConsumerRecord,
            client.FencingToken,
            client.RecordColumns,
            client.TopicIdPartition,
            tracing.producer_links,
        ),
    ),
    ("Producing", (client.Producer, client.AsyncProducer, producer.RecordMetadata)),
    ("Administering", (client.AdminClient, client.AsyncAdminClient)),
    (
        "Results of the admin client (`sharemesh.client.admin_results`)",
        tuple(_classes_of(admin_results)),
    ),
    ("Access rules (`sharemesh.client.acls`)", (acls.AclBinding, acls.AclBindingFilter)),
    (
        "Quotas (`sharemesh.client.quotas`)",
        (quotas.QuotaEntity, quotas.EntityType, quotas.QuotaName),
    ),
    ("Settings from outside (`sharemesh.client.config_sources`)", (from_environment, from_file)),
)


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for title, things in SECTIONS:
        parts.append(f"## {title}\n")
        parts.extend(_described(thing) for thing in things)
    parts.append("## Errors (`sharemesh.client.errors`)\n")
    parts.append(_errors())
    text = "\n".join(parts).rstrip() + "\n"
    return linked(text, PAGE.relative_to(ROOT).as_posix())


def _described(thing: Any) -> str:
    if not inspect.isclass(thing):
        return f"### `{thing.__name__}`\n\n{_block(_signature(thing))}{_text(thing)}\n"
    arguments = _arguments(thing)
    made = _block(thing.__name__ + arguments) if arguments else ""
    lines = [f"### `{thing.__name__}`\n", made + _text(thing), ""]
    if issubclass(thing, Enum):
        lines += [f"- `{each.name}` = {each.value}" for each in thing]
    members = list(_members(thing))
    if members:
        lines += ["Members:", ""]
    for name, member in members:
        text = _indented(member)
        lines.append(f"- `{name}`: {text}" + ("\n" if "\n\n" in text else ""))
    return "\n".join(lines) + "\n"


def _block(signature: str) -> str:
    return f"```text\n{signature}\n```\n\n"


def _members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties in the order of the source, inherited ones last."""
    seen: set[str] = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("sharemesh."):
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(member, property):
                yield name, member.fget
            elif inspect.isfunction(member):
                words = "async " if inspect.iscoroutinefunction(member) else ""
                yield f"{words}{_signature(member, drop_first=True)}", member


def _signature(function: Any, *, drop_first: bool = False) -> str:
    found = inspect.signature(function)
    parameters = list(found.parameters.values())[1 if drop_first else 0 :]
    return function.__name__ + _plain(str(found.replace(parameters=parameters)))


def _arguments(kind: type[Any]) -> str:
    if issubclass(kind, Enum) or kind is client.ConsumerRecord:
        return ""
    return _plain(str(inspect.signature(kind))).removesuffix(" -> None")


def _plain(signature: str) -> str:
    """Return a signature in the words of the module that applications import."""
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", signature)
    text = re.sub(r"<(AcknowledgeType\.[A-Z]+): \d+>", r"\1", text)
    return text.replace("'", "").replace("<factory>", "{}")


def _text(thing: Any) -> str:
    text = inspect.getdoc(thing)
    assert text, f"{thing} has no docstring"
    return _sections(text)


def _sections(text: str) -> str:
    """Turn Google's sections into lists."""
    lines = []
    for line in text.splitlines():
        if re.fullmatch(r"(Args|Raises|Attributes|Returns):", line):
            lines.append(f"{line[:-1]}:\n")
        elif re.match(r"    \S", line) and lines:
            lines.append("- " + line.strip())
        else:
            lines.append(line.strip() if line.startswith("     ") else line)
    return "\n".join(lines)


def _indented(thing: Any) -> str:
    return textwrap.indent(_text(thing), "    ").strip()


def _errors() -> str:
    lines = ["| exception | code | retriable | meaning |", "|---|---|---|---|"]
    for each in _classes_of(errors):
        code = vars(each).get("code") if each is not errors.ServiceError else None
        number = "" if code is None else f"{int(code)} {code.name}"
        retriable = "" if code is None else "yes" if errors.error_for(code).retriable else "no"
        first = (inspect.getdoc(each) or "").splitlines()[0]
        lines.append(f"| `{each.__name__}` | {number} | {retriable} | {first} |")
    return "\n".join(lines) + "\n"
