"""The table of docs/spec/access-control.md: which permission each RPC needs."""

from deploy.pages import DOCS, with_section
from sharemesh.authorization.permissions import PERMISSIONS, Open, RequiredPermission

PAGE = DOCS / "spec" / "access-control.md"


def section() -> str:
    """Return one row for each permission of each RPC."""
    lines = ["| RPC | needs | refused at |", "|---|---|---|"]
    for name, permissions in PERMISSIONS.items():
        if isinstance(permissions, Open):
            lines.append(f"| `{name}` | none | – ({permissions.reason}) |")
        else:
            lines += [f"| `{name}` | {_needs(each)} | {each.level.value} |" for each in permissions]
    return "\n".join(lines) + "\n"


def _needs(permission: RequiredPermission) -> str:
    words = f"{permission.operation.name} {permission.resource.name}"
    if permission.instead is not None:
        operation, resource = permission.instead
        words += f", or {operation.name} {resource.name}"
    return words


def page() -> str:
    """Return the page with the table as the code has it."""
    return with_section(PAGE, "permissions", section())
