"""The table of kinds of abuse; each is a small named function in a file of its family."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from sharemesh.methods import Method
from tests.faults.abuse.abused_cluster import Said, Stage

Abuser = Callable[[Stage, str], Awaitable[None]]
Preparation = Callable[[Stage], Awaitable[None]]

AT_ONCE = 16
"""Calls of a flood that are open at a time."""


@dataclass(frozen=True, slots=True)
class Abuse:
    """One kind: who tries it, and which finding of the attack on 0.1.0 it was, if any.

    ``run`` raises AssertionError for what is wrong beyond what is looked at with every kind.
    ``may_see`` is what of the quiet tenant's its principals have a right to see.
    """

    name: str
    who: tuple[str, ...]
    run: Abuser
    finding: int = 0
    may_see: frozenset[str] = frozenset()
    once: bool = False
    first: Preparation | None = None


ABUSES: dict[str, Abuse] = {}


def abuse(
    *who: str,
    finding: int = 0,
    may_see: Iterable[str] = (),
    once: bool = False,
    first: Preparation | None = None,
) -> Callable[[Abuser], Abuser]:
    """Add a kind under the name of its function.

    One that is dear is done ``once`` in a trial; ``first`` is what an administrator does before.
    """

    def add(run: Abuser) -> Abuser:
        name: str = run.__name__
        assert name not in ABUSES, f"two kinds are called {name}"
        ABUSES[name] = Abuse(name, who, run, finding, frozenset(may_see), once, first)
        return run

    return add


async def flood(
    stage: Stage,
    who: str,
    role: str,
    method: Method[Any, Any] | str,
    requests: Iterable[Message | bytes],
    *,
    at_once: int = AT_ONCE,
    timeout_s: float = 30.0,
) -> list[Said]:
    """Send requests, so many at once; return how each ended."""
    left = iter(requests)
    said: list[Said] = []

    async def caller() -> None:
        for request in left:
            said.append(await stage.send(who, role, method, request, timeout_s=timeout_s))

    await asyncio.gather(*(caller() for _ in range(at_once)))
    return said


def error_codes(message: Message) -> set[int]:
    """Return every error code anywhere in an answer, 0 for none."""
    found: set[int] = set()
    for field in message.DESCRIPTOR.fields:
        if field.name.endswith("error_code"):
            found.add(getattr(message, field.name))
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            if field.is_repeated:
                for each in getattr(message, field.name):
                    found |= error_codes(each)
            elif message.HasField(field.name):
                found |= error_codes(getattr(message, field.name))
    return found
