"""The table of docs/reference/permissions.md: what each RPC answers to whom."""

from enum import Enum

from deploy.pages import DOCS, with_section
from sharemesh.authorization.permissions import PERMISSIONS, Level, Open
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.authorizer import ResourceType

PAGE = DOCS / "reference" / "permissions.md"


class Caller(Enum):
    """Who calls: the seven columns."""

    SUPER_USER = "super user"
    ANONYMOUS = "no name"
    NO_RIGHT = "no right"
    OTHER_RIGHT = "right on another thing"
    EXACT_RIGHT = "exact right"
    PREFIX_RIGHT = "prefix right"
    REVOKED = "right taken away"


MAY = (Caller.SUPER_USER, Caller.EXACT_RIGHT, Caller.PREFIX_RIGHT)
LEFT_OUT, FAILS, ANSWERED = "left out", "PERMISSION_DENIED", "answered"
CODES = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def outcome(name: str, caller: Caller) -> str:
    """Return how an RPC ends for a caller, by what it declares: the first permission decides."""
    permissions = PERMISSIONS[name]
    if isinstance(permissions, Open) or caller in MAY:
        return ANSWERED
    first = permissions[0]
    if first.level is Level.REQUEST and first.instead is not None:  # any topic will do
        if caller is Caller.OTHER_RIGHT:
            return ANSWERED
        return str(int(CODES[first.instead[1]]))
    if first.level is Level.CALL:
        return FAILS
    return LEFT_OUT if first.level is Level.FILTERED else str(int(CODES[first.resource]))


def section() -> str:
    """Return one row for each RPC."""
    lines = [
        "| RPC | " + " | ".join(caller.value for caller in Caller) + " |",
        "|---|" + "---|" * len(Caller),
    ]
    for name in PERMISSIONS:
        found = (outcome(name, caller) for caller in Caller)
        lines.append(f"| `{name}` | " + " | ".join(found) + " |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the table as the code has it."""
    return with_section(PAGE, "outcomes", section())
