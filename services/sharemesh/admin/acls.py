"""Access rules, created, described and deleted (spec ACL; Kafka's rules for them)."""

from sharemesh.admin.acl_codec import filter_of, rule_message, rule_of
from sharemesh.authorization.access import Access
from sharemesh.cluster.store import acls
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import OPERATIONS_MAX, Coordination, CoordinationError
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as pb


class AclAdmin:
    """Changing rules needs ALTER on the cluster, seeing them DESCRIBE."""

    def __init__(
        self, coordination: Coordination, view: ClusterView, access: Access, *, enabled: bool
    ) -> None:
        """Without an authorizer that looks at rules (``enabled``) all is SECURITY_DISABLED."""
        self._coordination = coordination
        self._view = view
        self._access = access
        self._enabled = enabled

    async def create(
        self, request: pb.CreateAclsRequest, context: CallContext
    ) -> pb.CreateAclsResponse:
        """Store rules, one by one: a refused one leaves the others."""
        _bounded(len(request.rules), "rules")
        response = pb.CreateAclsResponse()
        for message in request.rules:
            try:
                self._check(context.principal, Operation.ALTER)
                await acls.add_rules(self._coordination, self._view, [rule_of(message)])
            except (RefusedError, CoordinationError) as error:
                response.results.add(error_code=_code(error), error_message=_words(error))
            else:
                response.results.add()
        return response

    async def delete(
        self, request: pb.DeleteAclsRequest, context: CallContext
    ) -> pb.DeleteAclsResponse:
        """Remove what fits each filter and tell which rules that were."""
        _bounded(len(request.filters), "filters")
        response = pb.DeleteAclsResponse()
        for message in request.filters:
            try:
                self._check(context.principal, Operation.ALTER)
                removed = await acls.remove_rules(
                    self._coordination, self._view, filter_of(message)
                )
            except (RefusedError, CoordinationError) as error:
                response.results.add(error_code=_code(error), error_message=_words(error))
            else:
                response.results.add(rules=[rule_message(rule) for rule in removed])
        return response

    async def describe(
        self, request: pb.DescribeAclsRequest, context: CallContext
    ) -> pb.DescribeAclsResponse:
        """Return the rules that fit a filter, as stored now."""
        try:
            self._check(context.principal, Operation.DESCRIBE)
            found = await acls.find_rules(self._coordination, self._view, filter_of(request.filter))
        except (RefusedError, CoordinationError) as error:
            return pb.DescribeAclsResponse(error_code=_code(error), error_message=_words(error))
        return pb.DescribeAclsResponse(rules=[rule_message(rule) for rule in found])

    def _check(self, principal: str, operation: Operation) -> None:
        if not self._enabled:
            raise RefusedError(
                ErrorCode.SECURITY_DISABLED,
                "this cluster has no access rules; start its processes with authorizer = acl and "
                "super_users",
            )
        self._access.cluster(principal, operation)


def _bounded(count: int, what: str) -> None:
    if count > OPERATIONS_MAX:
        raise CallFailedError(
            Failure.INVALID_ARGUMENT, f"{count} {what}; send at most {OPERATIONS_MAX} at once"
        )


def _code(error: RefusedError | CoordinationError) -> int:
    return error.error if isinstance(error, RefusedError) else ErrorCode.REQUEST_TIMED_OUT


def _words(error: RefusedError | CoordinationError) -> str:
    return error.message if isinstance(error, RefusedError) else f"{error}; it may be repeated"
