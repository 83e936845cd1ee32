"""No rules: everybody may do everything."""

from collections.abc import Callable

from sharemesh.ports.authorizer import Operation, ResourceType


class AllowAll:
    """Fills ``ports.authorizer.Authorizer`` for clusters without an ACL table."""

    def allows(
        self,
        principal: str,  # noqa: ARG002 - the port's words
        operation: Operation,  # noqa: ARG002
        resource: ResourceType,  # noqa: ARG002
        name: str,  # noqa: ARG002
    ) -> bool:
        """Return True."""
        return True

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Never call back: there are no rules."""
        return lambda: None
