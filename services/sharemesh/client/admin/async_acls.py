"""The part of the admin client that is about access rules."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sharemesh import methods
from sharemesh.client.acls import (
    AclBinding,
    AclBindingFilter,
    binding_of,
    filter_message,
    rule_message,
)
from sharemesh.client.admin.codec import Problem, check
from sharemesh.client.admin.router import AdminRouter
from sharemesh.client.errors import optional_error
from sharemesh.v1 import admin_pb2


class AsyncAcls(ABC):
    """Adds, shows and removes access rules; ``AsyncAdminClient`` is one."""

    @property
    @abstractmethod
    def _calls(self) -> AdminRouter:
        """The admin client's connections."""

    async def create_acls(self, bindings: Sequence[AclBinding]) -> dict[AclBinding, Problem]:
        """Add access rules; those that are there already stay."""
        response = await self._calls.any(
            methods.CREATE_ACLS,
            admin_pb2.CreateAclsRequest(rules=[rule_message(each) for each in bindings]),
        )
        return {
            each: optional_error(found.error_code, found.error_message, about=each.principal)
            for each, found in zip(bindings, response.results, strict=True)
        }

    async def delete_acls(self, wanted: AclBindingFilter) -> list[AclBinding]:
        """Remove the access rules that fit and return them.

        Raises:
            ServiceError: It was refused.
        """
        response = await self._calls.any(
            methods.DELETE_ACLS, admin_pb2.DeleteAclsRequest(filters=[filter_message(wanted)])
        )
        (found,) = response.results
        check(found.error_code, found.error_message, "access rules")
        return [binding_of(each) for each in found.rules]

    async def describe_acls(self, wanted: AclBindingFilter | None = None) -> list[AclBinding]:
        """Return the access rules that fit; None: all.

        Raises:
            ServiceError: It was refused.
        """
        response = await self._calls.any(
            methods.DESCRIBE_ACLS,
            admin_pb2.DescribeAclsRequest(filter=filter_message(wanted or AclBindingFilter())),
        )
        check(response.error_code, response.error_message, "access rules")
        return [binding_of(each) for each in response.rules]
