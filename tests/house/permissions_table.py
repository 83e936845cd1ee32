"""`python -m tests.house.permissions_table`: writes the table of permissions from the code."""

from pathlib import Path

from sharemesh.authorization.permissions import PERMISSIONS, Open, RequiredPermission

PAGE = Path(__file__).parents[2] / "docs" / "spec" / "access-control.md"
BEGIN, END = "<!-- permissions: written by make docs -->\n", "<!-- end of permissions -->\n"


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


def page(text: str) -> str:
    """Return the page with the table as the code has it."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + section() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
