"""No rules: everybody may do everything."""

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
